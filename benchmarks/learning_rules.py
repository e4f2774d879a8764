#!/usr/bin/env python3
"""Loss of every learning rule against steps and compute, on text and on images.

    learning_rules.py LONGSPAN TEXT IMAGES [--steps N] [--seeds 1,2,3] [--task text|images]

LONGSPAN is the program, TEXT a text file, IMAGES a directory as `longspan train images` reads it.
Prints a Markdown table: mean and spread over the seeds at equal steps, and at the compute of
backpropagation's steps.
"""
import argparse
import json
import statistics
import subprocess
import tempfile

MODEL = "--layers 2 --d-model 64 --heads 4 --threads 1 --save-every 0 --quiet --json".split()
TASKS = {
    "text": ("--batch 12 --length 64 --eval-windows 200".split(), "validation_loss"),
    "images": ("--model encoder --patch 4 --batch 32 --positions learned".split(), "test_loss"),
}
MOMENTUM = "--optimizer momentum --weight-decay 0 --clip 0 --warmup 0 --lr 0.05 --lr-floor 0.005"
RULES = {
    "bp, AdamW": "--rule bp",
    "bp, momentum": f"--rule bp {MOMENTUM}",
    "last layer alone, tied":
        f"--rule pepita --feedback-scale 0 --last-layer standard {MOMENTUM}",
    "last layer alone, untied":
        f"--rule pepita --feedback-scale 0 --last-layer standard --untied {MOMENTUM}",
    "pepita as published": f"--rule pepita --feedback-scale 0.05 --untied {MOMENTUM}",
    "pepita as published, AdamW": "--rule pepita --feedback-scale 0.05 --untied",
    "pepita, stream":
        "--rule pepita --feedback-scale -0.1 --branch-signal sum --learners stream "
        f"--last-layer standard {MOMENTUM}",
}


def train(options, task, rule, seed, steps):
    settings, _ = TASKS[task]
    data = options.text if task == "text" else options.images
    # Only a language model has a token table that its last layer could share.
    rule_options = [o for o in RULES[rule].split() if task == "text" or o != "--untied"]
    with tempfile.TemporaryDirectory() as out:
        command = [options.longspan, "train", task, "--data", data, "--out", out, "--steps",
                   str(steps), "--seed", str(seed), "--eval-every", str(max(1, steps // 10)),
                   *MODEL, *settings, *rule_options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:  # a run that diverged fails too, but says so
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def spread(values):
    if any(v is None for v in values):
        return "diverged"
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.3f} ± {deviation:.3f}"


def at_step(record, key, step):
    found = [v[key] for v in record["validation"] if v["step"] <= step]
    return None if record["diverged"] or not found else found[-1]


def report(options, task):
    _, key = TASKS[task]
    budget = None
    print(f"\n{task}: {key} after {options.steps} steps, seeds {options.seeds}\n")
    print("| rule | half of the steps | all steps | at the compute of bp | FLOPs of a step |"
          + (" accuracy |" if task == "images" else ""))
    print("| --- | --- | --- | --- | --- |" + (" --- |" if task == "images" else ""))
    for rule in RULES:
        runs = [train(options, task, rule, seed, options.steps) for seed in options.seeds]
        flops = runs[0]["flops_per_step"]
        budget = budget or flops * options.steps
        equal = budget // flops
        cells = [spread([at_step(r, key, options.steps // 2) for r in runs]),
                 spread([at_step(r, key, options.steps) for r in runs]),
                 spread([at_step(r, key, equal) for r in runs]) +
                 (f" @{equal}" if equal < options.steps else ""),
                 f"{flops / 1e6:.1f} M"]
        if task == "images":
            accuracy = [at_step(r, "test_accuracy", options.steps) for r in runs]
            cells.append(spread([None if a is None else 100 * a for a in accuracy]))
        print(f"| {rule} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("longspan")
    parser.add_argument("text")
    parser.add_argument("images")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=lambda s: [int(x) for x in s.split(",")], default=[1, 2, 3])
    parser.add_argument("--task", choices=TASKS)
    options = parser.parse_args()
    for task in [options.task] if options.task else TASKS:
        report(options, task)


if __name__ == "__main__":
    main()
