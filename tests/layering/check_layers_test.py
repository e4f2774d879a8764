"""The layering check passes what is allowed and names what is not."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_layers.py"


class CheckLayers(unittest.TestCase):
    def run_on(self, files):
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return subprocess.run(
                [sys.executable, CHECK, root], capture_output=True, text=True, check=False
            )

    def assert_passes(self, name, include):
        result = self.run_on({name: f"#include {include}\n"})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def assert_refused(self, name, include, reason):
        result = self.run_on({name: f"// head\n#include {include}\n"})
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(f"{name}:2: includes {include[1:-1]}: {reason}", result.stdout)

    def test_allowed(self):
        self.assert_passes("longspan/base/a.h", "<fmt/core.h>")
        self.assert_passes("longspan/base/a.h", '"longspan/base/b.h"')
        self.assert_passes("longspan/kernels/a.cc", '"hwy/highway.h"')
        self.assert_passes("longspan/kernels/a.cc", "<oneapi/dnnl/dnnl.h>")
        self.assert_passes("longspan/models/a.h", '"longspan/kernels/b.h"')
        self.assert_passes("longspan/attention/a_test.cc", '"longspan/testing/b.h"')
        self.assert_passes("longspan/testing/a.h", '"longspan/learning/b.h"')
        self.assert_passes("longspan/io/a.cc", "<nlohmann/json.hpp>")
        self.assert_passes("apps/cli/a.cc", "<CLI/CLI.hpp>")
        self.assert_passes("apps/cli/a.cc", '"longspan/learning/b.h"')

    def test_upward_includes(self):
        self.assert_refused("longspan/base/a.h", '"longspan/kernels/b.h"', "base may include")
        self.assert_refused("longspan/attention/a.cc", '"longspan/layers/b.h"', "attention may")
        self.assert_refused("longspan/learning/a.cc", '"longspan/io/b.h"', "learning may include")
        self.assert_refused("longspan/report/a.cc", '"longspan/models/b.h"', "report may include")
        self.assert_refused("longspan/layers/a_test.cc", '"longspan/models/b.h"', "layers may")

    def test_folders_nobody_includes(self):
        self.assert_refused("longspan/io/a.cc", '"apps/cli/b.h"', "nothing includes apps/")
        self.assert_refused("longspan/base/a.cc", '"longspan/testing/b.h"', "only tests include")
        self.assert_refused("apps/cli/a.cc", '"longspan/testing/b.h"', "only tests include")

    def test_libraries(self):
        self.assert_refused("longspan/attention/a.cc", '"hwy/highway.h"', "only kernels")
        self.assert_refused("longspan/layers/a.cc", "<dnnl.h>", "only kernels")
        self.assert_refused("longspan/base/a.cc", "<cblas.h>", "only kernels")
        self.assert_refused("longspan/layers/a.cc", "<nlohmann/json.hpp>", "only io, models")
        self.assert_refused("tests/a.cc", "<CLI/CLI.hpp>", "only apps")
        self.assert_refused("longspan/base/a.cc", "<gtest/gtest.h>", "only testing")

    def test_proofs_are_independent(self):
        for formula in ("executed_formula.cc", "executed_rules.cc", "executed_site.h"):
            formula = f"longspan/testing/{formula}"
            self.assert_passes(formula, '"longspan/models/config.h"')
            self.assert_refused(formula, '"longspan/layers/branch.h"', "it must be independent")
            self.assert_refused(formula, '"longspan/models/model.h"', "it must be independent")
            self.assert_refused(formula, '"longspan/learning/rule.h"', "it must be independent")

    def test_strangers(self):
        self.assert_refused("longspan/misc/a.h", '"longspan/base/b.h"', "longspan/misc is not in")
        self.assert_refused("longspan/base/a.cc", '"view.h"', "name it from the root")
        self.assertEqual(self.run_on({"readme": ""}).returncode, 1)


if __name__ == "__main__":
    unittest.main()
