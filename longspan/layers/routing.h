// How the rows of a batch were shared out among the experts of a branch: the one fact about the
// data on which what a step costs depends.
//
// A forward writes it. A dry one reads it, so that a walk counts exactly what that forward did, and
// shares the rows out evenly where it finds none. Memory goes by capacity, so it never depends on
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "longspan/kernels/rows/routing.h"

namespace longspan {

// A loss on choices: of one layer, or of several together.
struct RoutingLoss {
  RouteTally tally;      // every forward adds to it
  double balance = 0.0;  // α
  double squares = 0.0;  // ζ

  void clear() { tally.clear(); }
  double value() const { return balance * tally.balance() + squares * tally.mean_square(); }
};

struct Routing {
  std::vector<std::int32_t> loads;   // rows that each expert computed; empty: not known
  std::vector<std::int32_t> chosen;  // the expert of each choice, for a pass that computes again
  RoutingLoss loss;                  // of these experts alone
  float weight = 1.0F;               // of auxiliary losses in what backward sends
};

// ⌈factor·top·tokens/experts⌉, and no more than there are tokens.
std::size_t expert_capacity(double factor, std::size_t top, std::size_t tokens,
                            std::size_t experts);

// Rows that expert e of a pass computes: those it was given or, dry, those of `routing`, else its
// even share.
std::size_t rows_of_expert(const RouteOptions& options, const Routes& routes,
                           const Routing* routing, std::size_t e);
// Notes in `routing`, if there is one, what was chosen; dry, throws Error if its loads are of
// another shape.
void note_routes(const RouteOptions& options, const Routes& routes, Routing* routing);
// A pass that computes again, from inputs that were rounded, keeps to what was chosen before: a
// token on the edge between two experts would else change sides.
void recall_choices(const Routes& routes, const Routing* routing);

// The mean number of rows that an expert computes if every token chooses `top` different experts at
// random, all sets of them being equally likely, and independently of the other tokens: then the
// tokens that choose it are Binomial(tokens, top/experts), of which it takes up to its capacity.
// Which choices are first and which second makes no difference to how many it takes.
double expected_rows(std::size_t tokens, std::size_t experts, std::size_t top,
                     std::size_t capacity);

}  // namespace longspan
