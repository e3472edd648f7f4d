"""The golden cases of Apache Kafka's SslPrincipalMapper: rules, subjects, and principals.

compat-tests/run tls-rules-record
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from harness import install
from runner.result import Result
from runner.shared import NoOptions

GOLDEN = Path(__file__).parents[2] / "gateway/tests/tls/kafka_rules.json"
PROGRAM = Path(__file__).parent / "Rules.java"

RULES = (
    "DEFAULT",
    " DEFAULT ",
    "",
    ",,DEFAULT,",
    "default",
    "DEFAULT DEFAULT",
    "DEFAULTS",
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT",
    "RULE:^CN=([^,]*).*$/$1/U,\n  DEFAULT",
    r"RULE:(.*)/$1x/",
    r"RULE:.*/x/",
    r"RULE:CN=(.*?)/$1/",
    r"RULE:CN=(a|ann|anna).*/<$1>/",
    r"RULE:(?:CN|OU)=.*/$0!/",
    r"RULE:^CN=(\w+).*$/$1$2/",
    r"RULE:^CN=(\w+).*$/$12/",
    r"RULE:^CN=(\w+).*$/\$1/",
    r"RULE:^CN=(\w+).*$/a\/b$1/",
    r"RULE:^CN=a\/b.*$/slash/",
    r"RULE:^CN=(?<name>\w+).*$/${name}/",
    r"RULE:^CN=(x)?(\w+).*$/[$1$2]/",
    r"RULE:^CN=(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)(.).*$/$11-$1-$10/",
    r"RULE:^CN=([^,]+),.*$//,DEFAULT",
    r"RULE:^CN=([^,]+).*$/$1/LU",
    r"RULE:^CN=([^,]+).*$/$1/X",
    r"RULE:^CN=([^,]+).*$/$1",
    r"RULE:^CN=([^,]+).*$",
    r"RULE:^CN=([^,]+).*$/$1/ L",
    r"RULE:^CN=(\p{L}+).*$/$1/U",
    r"RULE:^UID=(\d+)(?:,.*)?$/$1/,RULE:^CN=ann$/one/,RULE:^CN=ann.*$/two/",
    r"FOO,DEFAULT",
    r"RULE:a/b/ RULE:c/d/",
    r"RULE:[,]*CN.*/x,y/L,DEFAULT",
)
SUBJECTS = (
    "CN=ann",
    "CN=Ann,OU=ServiceUsers,O=acme",
    "CN=ann,OU=People,O=acme,L=Bern,ST=BE,C=CH",
    r"CN=a\,b,OU=x",
    "OU=x,CN=Ännä ß",
    "UID=42,DC=example",
    "CN=a/b,O=c",
    "CN=abcdefghijkl,O=c",
    "CN=xanna\tb",
)


def kafka_names(cases: list[tuple[str, str]]) -> list[str]:
    """Return "=" and the name, "none" or "wrong", for rules and subjects."""
    lines = "\n".join(f"{rules.encode().hex()} {text.encode().hex()}" for rules, text in cases)
    command = ["java", "-cp", f"{install.kafka_jars()}/*", str(PROGRAM)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [
        f"={bytes.fromhex(each[1:]).decode()}" if each[0] == "=" else each
        for each in done.stdout.splitlines()
    ]


def main(options: NoOptions) -> Result:
    """Write the golden file."""
    cases = [(rules, subject) for rules in RULES for subject in SUBJECTS]
    found = zip(cases, kafka_names(cases), strict=True)
    rows = [json.dumps([*case, name], ensure_ascii=False) for case, name in found]
    GOLDEN.write_text("[\n" + ",\n".join(rows) + "\n]\n")
    return Result(is_good=True)
