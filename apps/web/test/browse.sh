#!/bin/sh
# browse.sh COPY RENDER_PAGE: the tests of the page in a browser.
set -e
cd "$1"
"$2" test/fixture.json page.html
"$2" test/empty.json empty.html
RECORD=test/fixture.json PAGE=page.html EMPTY=empty.html exec node --test test/page.test.mjs
