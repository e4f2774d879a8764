#include "stage_flags.h"

#include "longspan/base/error.h"

namespace longspan::cli {

void StageFlags::add(CLI::App& command, const std::string& group) {
  command
      .add_option(
          "--stages", stages_,
          "Layers of each stage of an encoder, 4|4|4, between which its sequence is halved; "
          "the rest stands behind at full length")
      ->group(group);
  add_choice(command, "--stage-pool", pool_, "How they halve it", group);
  command.add_flag("--no-stage-cls", no_cls_, "They pool the first token like any other")
      ->group(group);
  command.add_flag("--no-stage-truncate", no_truncate_, "They keep a last token without a partner")
      ->group(group);
  command
      .add_flag("--pooled-keys", pooled_keys_,
                "The first layer of a stage reads keys from behind the pool, not from before it")
      ->group(group);
}

void StageFlags::set(ModelConfig& model) const {
  if (stages_) model.stages = *stages_;
  require(!model.stages.empty() || (!pool_ && !no_cls_ && !no_truncate_ && !pooled_keys_),
          "[model] --stage-pool, --no-stage-cls, --no-stage-truncate or --pooled-keys with no "
          "stages; need --stages, as in 4|4");
  if (pool_) model.stage_pool = *pool_;
  if (no_cls_) model.stage_cls = false;
  if (no_truncate_) model.stage_truncate = false;
  if (pooled_keys_) model.unpooled_keys = false;
}

}  // namespace longspan::cli
