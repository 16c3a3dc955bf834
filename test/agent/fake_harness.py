"""Stands for pass_bench in tests of the agent: same files, same exit codes, results from marks in the passes.

A pass says what becomes of it: `# speedup: 2.0`, `# verdict: accuracy`, `# only: GRAPH`, `# sleep: 5`,
`# exit: 3`, `# print: TEXT`, `# children: 1`, `# die: 1`, `# interpreted: 1` (no speed), `# flaky: 1` (where
there is no file $COUNT, it is made, and the first graph is infra). Without passes every graph is a pass_miss.
"""

import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

SAMPLE = Path(sys.argv[1])
OUT = Path(os.environ["PASSNET_EVAL_OUTPUT"])


def marks(text):
    return dict(re.findall(r"^# (\w+): (.*)$", text, re.MULTILINE))


def comparison(speedup):
    def stats(median):
        return {"trials": 100, "median_us": median, "q25_us": median, "q75_us": median, "min_us": median}

    return {
        "eager": stats(100.0),
        "compiled": stats(100.0 / speedup),
        "speedup": speedup,
        "low": 0.98 * speedup,
        "high": 1.02 * speedup,
        "noisy": False,
    }


def main():
    manifest = SAMPLE / "pass_dir" / "sorted_output_pass_rule_names.json"
    names = []
    if manifest.exists():
        try:
            names = json.loads(manifest.read_text())
        except ValueError:
            print("passbench: the manifest is not JSON")
            return 2
    told = {}
    for name in names:
        path = SAMPLE / "pass_dir" / f"{name}.py"
        if not path.exists():
            print(f"passbench: pass_dir/{name}.py: no such pass (expected the file that the manifest names)")
            return 2
        told[name] = marks(path.read_text())
    every = {key: value for one in told.values() for key, value in one.items()}
    if "print" in every:
        print(every["print"])
    if "children" in every:
        subprocess.Popen(["sleep", "300"], start_new_session=True)
    time.sleep(float(every.get("sleep", 0)))
    if "die" in every:
        os.kill(os.getpid(), 9)
    if "exit" in every:
        print("passbench: something of ours failed")
        return int(every["exit"])
    flaky = "flaky" in every and not Path(os.environ["COUNT"]).exists()
    if flaky:
        Path(os.environ["COUNT"]).touch()
    logs = []
    with (OUT / "results.jsonl").open("w") as results:
        for index, graph in enumerate((SAMPLE / "graph_list.txt").read_text().split()):
            here = [name for name, one in told.items() if one.get("only", graph) in graph]
            verdict = told[here[0]].get("verdict", "correct") if here else "pass_miss"
            verdict = "infra" if flaky and index == 0 else verdict
            speedup = float(told[here[0]].get("speedup", 1.0)) if here else 1.0
            record = {
                "version": 1,
                "sample": str(SAMPLE),
                "graph": graph,
                "index": index,
                "compiler": "pass_mgr_direct",
                "device": every.get("device", "cpu"),
                "device_name": every.get("device_name", ""),
                "verdict": verdict,
                "interpreted": bool(here) and "interpreted" in told[here[0]],
                "passes": [
                    {
                        "name": name,
                        "matched": int(name in here),
                        "replaced": int(name in here),
                        "skipped": "",
                        "nearest_miss": ""
                        if name in here
                        else "the graph has relu where the pattern has gelu",
                    }
                    for name in names
                ],
                "e2e": comparison(speedup) if verdict in ("correct", "accuracy") else None,
            }
            results.write(json.dumps(record) + "\n")
            if verdict not in ("infra", "unsupported_on_cpu") and not record["interpreted"]:
                logs.append(math.log10(speedup if verdict == "correct" else 0.1))
    score = 10 ** (sum(logs) / len(logs)) if logs else None
    (OUT / "aggregated_score.json").write_text(json.dumps({"id": "x", "score": score}))
    return 0


sys.exit(main())
