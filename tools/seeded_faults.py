#!/usr/bin/env python3
"""Seeds faults, one at a time, and demands that a test notices each.

usage: seeded_faults.py BUILD

BUILD is a configured build folder of a clean working tree. Every fault is one replacement in one
file; the test programs that ought to notice are built and run, and the file is put back. Exits 1
when a fault goes unnoticed.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

WALK = ("learning_test", "Walk.*")

# What goes wrong, where, from, to, and who must notice.
FAULTS = [
    ("a kernel called twice", "longspan/layers/feed_forward.cc",
     "  out_.forward(kept[kH], call.y);",
     "  out_.forward(kept[kH], call.y);\n  out_.forward(kept[kH], call.y);", WALK),
    ("memory taken that nothing uses", "longspan/layers/residual.cc",
     "  const Matrix t = arena.matrix(pass.rows(), d_model_);",
     "  const Matrix t = arena.matrix(pass.rows(), d_model_);\n  arena.matrix(pass.rows(), d_model_);",
     WALK),
    ("a lost dropout", "longspan/layers/residual.cc",
     "  if (drops(call.pass)) apply_dropout(call.pass, call.y, call.y, Phase::kForward);\n", "", WALK),
    ("a projection that promises one row more", "longspan/attention/projections.cc",
     "  Work work = product_work(rows, columns_, group_->inputs);",
     "  Work work = product_work(rows + 1, columns_, group_->inputs);",
     ("attention_test", "*Deberta*:*Longformer*")),
    ("rotary on keys that are queries", "longspan/layers/multi_head_attention.cc",
     "  if (!shared_qk()) config_.rotary->apply(t.k, first, inverse);",
     "  config_.rotary->apply(t.k, first, inverse);", WALK),
    ("a norm that is not updated", "longspan/layers/residual.cc",
     "    norm_->accumulate(saved, dy);\n", "    (void)saved;\n", WALK),
    ("a recomputation filed as forward", "longspan/layers/residual.cc",
     "    const Place::Again again;\n", "", WALK),
    ("data that steer the walk", "longspan/layers/routing.cc",
     "  return recorded(routing) ? static_cast<std::size_t>(routing->loads[e]) : even_rows(o, e);",
     "  return routing == nullptr ? even_rows(o, e) : even_rows(o, e);", WALK),
    ("adapters that forget a stream", "longspan/layers/multi_head_attention.cc",
     "  for (std::size_t i = 0; i < streams_.given.size(); ++i) {\n"
     "    const Stream& s = streams_.given[i];\n    const auto source",
     "  for (std::size_t i = 0; i < 1; ++i) {\n"
     "    const Stream& s = streams_.given[i];\n    const auto source", WALK),
    ("feedback alignment that goes forward twice", "longspan/learning/feedback_alignment.cc",
     "  const LossSum loss = model_.forward(batch, key, scale, histories);",
     "  model_.forward(batch, key, scale, histories);\n"
     "  const LossSum loss = model_.forward(batch, key, scale, histories);", WALK),
    ("an error that is sent to no final norm", "longspan/models/stack.cc",
     "  if (final_norm_ != nullptr) backward_final_norm(tape, g);\n}", "  (void)tape;\n}", WALK),
    ("modulated outputs that are scored twice", "longspan/learning/forward_learning.cc",
     "    head.score(saved, p);\n", "    head.score(saved, p);\n    head.score(saved, p);\n", WALK),
    ("a dense update that is lost", "longspan/layers/embedding_contrast.cc",
     "  gemm(error.error, g, table_->gradient_matrix(),\n"
     "       {.transpose_a = true, .add = true, .alpha = error.scale});\n", "", WALK),
    ("a second standard pass that forgets the final norm", "longspan/models/stack_contrast.cc",
     "  standard.x = finish(pass, join(pass, s, arena), nullptr, arena);",
     "  standard.x = join(pass, s, arena);", WALK),
]


def notices(build, program, tests):
    made = subprocess.run(["cmake", "--build", build, "--target", program], capture_output=True)
    if made.returncode != 0:
        return "does not compile"
    ran = subprocess.run([build / "tests" / program, f"--gtest_filter={tests}"],
                         capture_output=True)
    return "noticed" if ran.returncode != 0 else "UNNOTICED"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    unnoticed = 0
    for what, file, before, after, (program, tests) in FAULTS:
        path = ROOT / file
        text = path.read_text(encoding="utf-8")
        if text.count(before) != 1:
            sys.exit(f"{file}: the line of '{what}' occurs {text.count(before)} times; need once")
        try:
            path.write_text(text.replace(before, after), encoding="utf-8")
            verdict = notices(build, program, tests)
        finally:
            path.write_text(text, encoding="utf-8")
        unnoticed += verdict != "noticed"
        print(f"{verdict:10}  {what}", flush=True)
    print(f"{len(FAULTS) - unnoticed} noticed, {unnoticed} not")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
