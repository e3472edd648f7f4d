# Sourced by ./tidegate and ./check.  make_venv EXTRA installs this tree with that extra ("" or "dev")
# into .venv, once per state of pyproject.toml, constraints.txt and the files that are compiled.  Then
# it writes the protocol's modules, which are not in git, once per state of them and their schema.

make_venv() {
    venv="$root/.venv"
    install_tree "$1"
    make_messages
}

install_tree() {
    want=$(cat "$root/pyproject.toml" "$root/constraints.txt" "$root/hatch_build.py" \
        "$root"/protocol/tidegate_protocol/record_walk.p* | cksum)
    for extra in "$1" dev; do  # an environment with the dev extra serves both
        if [ "$(cat "$venv/stamp-$extra" 2>/dev/null)" = "$want" ]; then return 0; fi
    done
    choose_python
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "Tidegate needs Python 3.11 or newer; $python is $("$python" --version 2>&1)." \
             "Set PYTHON to a newer one." >&2
        exit 1
    }
    # Another one may install at this moment; and what it installed may serve us.
    lock_venv
    for extra in "$1" dev; do
        if [ "$(cat "$venv/stamp-$extra" 2>/dev/null)" = "$want" ]; then unlock_venv; return 0; fi
    done
    echo "installing Tidegate into .venv (once) ..." >&2
    rm -f "$venv"/stamp-*
    # One that was left half made is none, or has no pip.
    "$venv/bin/python" -c 'import pip, sys; sys.exit(sys.prefix == sys.base_prefix)' 2>/dev/null || {
        echo "making .venv with $python" >&2
        "$python" -m venv --clear "$venv"
    }
    # By environment, so that the packages that build ours are pinned too: older releases of pip read
    # the first name for them, newer ones the second.  Relative, since pip splits the value at blanks.
    (
        cd "$root"
        PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt "$venv/bin/python" -m pip \
            install --quiet --disable-pip-version-check --editable ".${1:+[$1]}"
    )
    printf '%s' "$want" > "$venv/stamp-$1"
    unlock_venv
}

# PYTHON, or of all on the PATH the most suitable one: with headers to compile by, then one whose build
# was optimised.  The first of equal ones, so python3 where nothing is better; and none that is older
# than python3, which lacks mends of the standard library.
choose_python() {
    python=${PYTHON:-}
    if [ "$python" ]; then return 0; fi
    python=python3
    best=-1
    oldest=$(python3 -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || oldest=
    folders=$PATH:
    while [ "$folders" ] && [ "$best" -lt 3 ]; do
        folder=${folders%%:*}
        folders=${folders#*:}
        for each in "$folder/python3" "$folder/python3.11" "$folder/python3.12" "$folder/python3.13"; do
            [ -x "$each" ] || continue
            rank=$("$each" "$root/gateway/tidegate_gateway/tools/interpreter.py" $oldest \
                2>/dev/null) || continue
            if [ "$rank" -gt "$best" ]; then best=$rank python=$each; fi
        done
    done
}

# Several shells may do so at once: generate.py puts each file in place whole.
make_messages() {
    protocol="$root/protocol"
    # Taken before: the schema may change meanwhile.
    from=$(sum_of "$protocol"/generate.py "$protocol"/codegen/*.py "$protocol"/schema/*)
    if [ "$(cat "$venv/stamp-messages" 2>/dev/null)" = "$from $(written)" ]; then return 0; fi
    "$venv/bin/python" "$protocol/generate.py"
    printf '%s' "$from $(written)" > "$venv/stamp-messages"
}

written() {
    sum_of "$protocol"/tidegate_protocol/apis.py "$protocol"/tidegate_protocol/messages/*.py
}

# One sum of the names and contents of files.  One that is missing has none.
sum_of() {
    cksum "$@" 2>/dev/null | cksum
}

# One shell at a time: a link whose target is its process id.  That of a dead one is taken away.
lock_venv() {
    lock="$root/.venv.lock"
    told=
    until ln -s "$$" "$lock" 2>/dev/null; do
        holder=$(readlink "$lock") || continue
        if ! kill -0 "$holder" 2>/dev/null; then
            [ "$(readlink "$lock")" != "$holder" ] || rm -f "$lock"
            continue
        fi
        [ "$told" ] || echo "waiting for process $holder, which installs into .venv ($lock) ..." >&2
        told=1
        sleep 1
    done
    trap unlock_venv EXIT
}

unlock_venv() {
    rm -f "$lock"
    trap - EXIT
}
