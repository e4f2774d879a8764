#!/bin/sh
# browse.sh COPY RENDER_PAGE QUALITY: the tests of the pages in a browser. QUALITY is the record of a
# comparison on a task.
set -e
cd "$1"
"$2" test/fixture.json page.html
"$2" test/empty.json empty.html
RECORD=test/fixture.json PAGE=page.html EMPTY=empty.html RENDER=$2 QUALITY=$3 \
  exec node --test test/page.test.mjs test/quality.test.mjs
