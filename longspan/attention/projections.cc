#include "longspan/attention/projections.h"

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

void Projection::forward(ConstMatrix x, Matrix y) const {
  const float* bias = group_->bias ? &group_->offset->value[first_] : nullptr;
  if (whole()) return linear_forward(x, group_->weight->weights(), bias, y);
  linear_forward(x, group_->weight->matrix().slice_rows(first_, columns_), bias, y);
}

void Projection::backward(ConstMatrix dy, Matrix dx, bool add) const {
  gemm(dy, group_->weight->backward_matrix().slice_rows(first_, columns_), dx, {.add = add});
}

void Projection::accumulate(ConstMatrix x, ConstMatrix dy) const { accumulate(x, dy, {}); }

void Projection::accumulate(ConstMatrix x, ConstMatrix dy,
                            std::span<const std::int32_t> lengths) const {
  if (!group_->weight->constant) {
    gemm_real_rows(dy, x, group_->weight->gradient_matrix().slice_rows(first_, columns_), lengths,
                   {.add = true});
  }
  if (group_->bias && !group_->offset->constant) {
    add_column_sums(dy, &group_->offset->gradient[first_]);
  }
}

void Projection::add_gradient(ConstMatrix dw) const {
  axpy(1.0F, dw, group_->weight->gradient_matrix().slice_rows(first_, columns_));
}

Work Projection::forward_work(std::size_t rows) const {
  Work work = product_work(rows, columns_, group_->inputs);
  if (group_->bias) work += bias_work(rows, columns_);
  return work;
}

Work Projection::backward_work(std::size_t rows) const {
  return product_work(rows, group_->inputs, columns_);
}

Work Projection::update_work(std::size_t rows) const {
  Work work = product_work(columns_, group_->inputs, rows);
  if (group_->bias) {
    work += flops(Kind::kAdd, rows * columns_, 4 * (rows + 2) * columns_);
  }
  return work;
}

bool Projection::declared() const { return group_ != nullptr && group_->weight != nullptr; }
bool Projection::frozen() const { return group_->weight->constant; }
std::size_t Projection::inputs() const { return group_->inputs; }

Projections::Projections(const Streams& streams, const AttentionLayout& layout, bool bias)
    : name_(layout.name), deviation_(layout.deviation) {
  for (const Stream& s : streams.given) place(s, /*on_call=*/false, layout.d_model, bias);
  for (const Stream& s : streams.on_call) {
    const auto row = std::ranges::find(rows_, s.name, &Row::stream);
    if (row == rows_.end()) {
      place(s, /*on_call=*/true, layout.d_model, bias);
    } else {
      row->group->sliced = true;
    }
  }
}

void Projections::place(const Stream& s, bool on_call, std::size_t d_model, bool bias) {
  const Projection::Group own{.name = s.group,
                              .inputs = s.inputs == 0 ? d_model : s.inputs,
                              .source = s.source,
                              .on_call = on_call,
                              .bias = s.bias.value_or(bias)};
  const auto named = [&](const Projection::Group& g) { return g.name == s.group; };
  auto group = std::ranges::find_if(groups_, named);
  if (group == groups_.end()) {
    groups_.push_back(own);
    group = groups_.end() - 1;
  }
  require(group->inputs == own.inputs && group->source == own.source &&
              group->on_call == own.on_call && group->bias == own.bias,
          "[attention] the stream '{}' is not of one source, width and bias with others of '{}'; "
          "need a group of its own",
          s.name, s.group);
  rows_.push_back({s.name, &*group, group->columns, s.columns()});
  group->columns += s.columns();
}

void Projections::declare(Parameters& parameters, Projection::Group& group) const {
  const std::string name = name_ + "." + group.name;
  group.weight = &parameters.declare(name + ".weight", group.columns, group.inputs,
                                     Initializer::normal(deviation_), Role::kProjection);
  group.weight->packable = !group.on_call && !group.sliced;
  if (group.bias) {
    group.offset =
        &parameters.declare(name + ".bias", group.columns, Initializer::zeros(), Role::kProjection);
  }
}

void Projections::declare_given(Parameters& parameters, Source source) {
  for (Projection::Group& g : groups_) {
    if (!g.on_call && g.source == source) declare(parameters, g);
  }
}

void Projections::declare_on_call(Parameters& parameters) {
  for (Projection::Group& g : groups_) {
    if (g.on_call) declare(parameters, g);
  }
}

Projection Projections::of(std::string_view first, std::string_view last) const {
  const auto find = [&](std::string_view name) {
    const auto row = std::ranges::find(rows_, name, &Row::stream);
    require(row != rows_.end(), "[attention] no stream is called '{}'", name);
    return row;
  };
  const auto begin = find(first);
  const auto end = last.empty() ? begin : find(last);
  require(begin->group == end->group && begin <= end,
          "[attention] the streams '{}' to '{}' do not stand side by side", first, last);
  return {*begin->group, begin->first, end->first + end->columns - begin->first};
}

template <class Do>
void Projections::for_each_given(Source source, Do act) const {
  std::size_t column = 0;
  for (const Projection::Group& g : groups_) {
    if (g.on_call || g.source != source) continue;
    act(Projection(g, 0, g.columns), column);
    column += g.columns;
  }
}

std::size_t Projections::column(std::string_view stream) const {
  const auto row = std::ranges::find(rows_, stream, &Row::stream);
  require(row != rows_.end() && !row->group->on_call, "[attention] no given stream is called '{}'",
          stream);
  std::size_t column = row->first;
  for (const Projection::Group& g : groups_) {
    if (&g == row->group) break;
    if (!g.on_call && g.source == row->group->source) column += g.columns;
  }
  return column;
}

void Projections::forward(Source source, ConstMatrix x, Matrix y) const {
  for_each_given(source, [&](const Projection& p, std::size_t column) {
    p.forward(x, y.slice_cols(column, p.columns()));
  });
}

void Projections::backward(Source source, ConstMatrix dy, Matrix dx, bool add) const {
  for_each_given(source, [&](const Projection& p, std::size_t column) {
    p.backward(dy.slice_cols(column, p.columns()), dx, add || column > 0);
  });
}

void Projections::accumulate(Source source, ConstMatrix x, ConstMatrix dy) const {
  for_each_given(source, [&](const Projection& p, std::size_t column) {
    p.accumulate(x, dy.slice_cols(column, p.columns()));
  });
}

bool Projections::frozen(Source source) const {
  bool all = true;
  for_each_given(source, [&](const Projection& p, std::size_t) { all = all && p.frozen(); });
  return all;
}

}  // namespace longspan
