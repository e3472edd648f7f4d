# Sourced by ./tidegate and ./check.  make_venv EXTRA installs this tree with that extra ("" or "dev")
# into .venv, once per state of pyproject.toml, constraints.txt and the files that are compiled.

make_venv() {
    venv="$root/.venv"
    want=$(cat "$root/pyproject.toml" "$root/constraints.txt" "$root/hatch_build.py" \
        "$root"/protocol/tidegate_protocol/record_walk.p* | cksum)
    for extra in "$1" dev; do  # an environment with the dev extra serves both
        if [ "$(cat "$venv/stamp-$extra" 2>/dev/null)" = "$want" ]; then return 0; fi
    done
    python=${PYTHON:-python3}
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
    "$venv/bin/python" -c 'import pip, sys; sys.exit(sys.prefix == sys.base_prefix)' 2>/dev/null ||
        "$python" -m venv --clear "$venv"
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
