// What every record begins with: when, by which command, where and with what it was made.
#pragma once

#include <cstdint>
#include <string>

#include "longspan/compare/compare_point.h"

namespace longspan {

struct CompareMachine {
  std::string cpu;
  std::uint64_t cores = 0;
  double memory_bytes = 0.0;
  std::string os;
  std::string instruction_set;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("cpu", self.cpu);
    see("cores", self.cores);
    see("memory_bytes", self.memory_bytes, kPartBytes);
    see("os", self.os);
    see("instruction_set", self.instruction_set);
  }
  bool operator==(const CompareMachine&) const = default;
};

struct CompareVersions {
  std::string longspan;
  std::string onednn;
  std::string highway;
  std::string compiler;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("longspan", self.longspan);
    see("onednn", self.onednn);
    see("highway", self.highway);
    see("compiler", self.compiler);
  }
};

struct RecordHead {
  std::string created;  // "2026-01-31T12:00:00Z"
  std::string command;
  CompareMachine machine;
  CompareVersions versions;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("created", self.created);
    see("command", self.command);
    see("machine", self.machine);
    see("versions", self.versions);
  }
};

}  // namespace longspan
