package cleaner

import (
	"urltree/iut"
	"urltree/storage"
)

// maxSeed is the longest seed that the index takes, in bytes.
const maxSeed = 8 << 10

// Seeds calls fn with every seed of the tree, oldest first, until fn fails. A line that is no
// URL, since something else has written to seeds.txt, costs this line and not the tree: bad is
// told of it.
func Seeds(tree *iut.Tree, fn func(url string) error, bad func(line string)) error {
	return tree.Seeds(func(line string) error {
		_, err := storage.Key(line)
		if err == nil {
			_, err = tree.Path(line)
		}
		if err != nil || len(line) > maxSeed {
			bad(line)
			return nil
		}
		return fn(line)
	})
}
