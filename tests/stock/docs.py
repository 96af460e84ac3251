"""docs.py PAGE FOLDER: the programs of a page of client/docs are in FOLDER, and its commands in FOLDER/run.sh, as they are written.

A fenced block after a line "<!-- docs_test: NAME -->" is a part of the file NAME; "run" are commands for bash."""
import pathlib
import re
import sys

page, folder = pathlib.Path(sys.argv[1]).read_text(), pathlib.Path(sys.argv[2])
parts = {}
for name, block in re.findall(r"<!-- docs_test: (\S+) -->\n```\w+\n(.*?)^```$", page, re.S | re.M):
    parts.setdefault(name, []).append(block)
if page.count("docs_test:") != sum(map(len, parts.values())) or "run" not in parts:
    sys.exit(f"{sys.argv[1]}: a docs_test without its block")
for name, blocks in parts.items():
    if name != "run":
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(blocks))
(folder / "run.sh").write_text("set -eu -o pipefail\n" + "\n".join(parts["run"]))
