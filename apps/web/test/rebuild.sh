#!/bin/sh
# rebuild.sh SOURCE COPY: builds the bundle in the copy and demands the bytes of the source; checks
# the types, and that the fixture is what its script writes.
set -e
source=$1
copy=$2
cd "$copy"
node_modules/.bin/tsc --noEmit
node build.mjs rebuilt.html
same() {
  cmp "$1" "$2" || {
    echo "$3" >&2
    exit 1
  }
}
same rebuilt.html "$source/dist/page.html" "dist/page.html is not what its sources give: run npm run build in apps/web"
node test/make_fixture.mjs >fixture.json
same fixture.json "$source/test/fixture.json" "test/fixture.json is not what make_fixture.mjs writes"
echo "$(wc -c <rebuilt.html) bytes, the same"
