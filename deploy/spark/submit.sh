#!/bin/sh
# Runs `tidegate pipeline` as a Spark application:
#
#   SPARK_MASTER=spark://host:7077 deploy/spark/submit.sh run --log URL --object-store URL
#
# What it sets below wins over spark-defaults.conf, and TIDEGATE_SUBMIT_ARGS over both; all else of
# that file holds.  See README.md beside this one.  Settings of this script:
#
#   SPARK_MASTER           as spark-submit's --master
#   PYSPARK_PYTHON         Python with tidegate[pipeline], at the same path on every machine; or
#   TIDEGATE_ENVIRONMENT   a packed environment (.tar.gz) that Spark ships to the executors
#   TIDEGATE_TASK_CORES    tasks at once in an executor; its memory is made for them (default 2)
#   TIDEGATE_SUBMIT_ARGS   more arguments of spark-submit, split at blanks; they win over ours, as in
#                          "--conf spark.task.maxFailures=8 --conf spark.speculation=true"
set -eu
here=$(cd "$(dirname "$0")" && pwd)
: "${SPARK_MASTER:?set it to the URL of the cluster, such as spark://host:7077}"
cores=${TIDEGATE_TASK_CORES:-2}

# Python's memory lies outside the heap: for each task the bytes it reads, the segment, and Python.
# With --segment-bytes above 128 MiB that is more: say so in TIDEGATE_SUBMIT_ARGS.
overhead=$((cores * (2 * 128 + 200)))

set -- "$here/driver.py" "$@"
if [ -n "${TIDEGATE_ENVIRONMENT:-}" ]; then
    # Executors find it below their working folder; the driver runs in the one that calls us.
    export PYSPARK_DRIVER_PYTHON="${PYSPARK_PYTHON:-python3}"
    export PYSPARK_PYTHON=./environment/bin/python
    set -- --archives "$TIDEGATE_ENVIRONMENT#environment" "$@"
fi
# shellcheck disable=SC2086 # it holds several words
set -- ${TIDEGATE_SUBMIT_ARGS:-} "$@"
exec "${SPARK_HOME:+$SPARK_HOME/bin/}spark-submit" \
    --master "$SPARK_MASTER" \
    --name tidegate-pipeline \
    --conf spark.executor.cores="$cores" \
    --conf spark.executor.memory=1g \
    --conf spark.executor.memoryOverhead="${overhead}m" \
    --conf spark.task.maxFailures=4 \
    --conf spark.speculation.task.duration.threshold=120s \
    --conf spark.sql.execution.arrow.pyspark.enabled=true \
    --conf spark.python.unix.domain.socket.enabled=true \
    --conf spark.ui.showConsoleProgress=false \
    "$@"
