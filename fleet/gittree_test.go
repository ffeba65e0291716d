package fleet

import (
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
	"github.com/stretchr/testify/require"
)

// A folder goes with its last file, and a repository may be left without one: its commit
// has Git's empty tree.
func TestCommitOfNothing(t *testing.T) {
	s := &Repo{store: memory.NewStorage()}
	who := object.Signature{Name: "n", Email: "e@example.com", When: time.Unix(0, 0).UTC()}
	files := func(have Tree) []string {
		var changes []Change
		for name, data := range have {
			changes = append(changes, Change{Path: name, What: map[bool]string{true: Removed, false: Added}[data == nil], Want: data})
		}
		hash, made, err := commit(s, "", changes, "words", who)
		require.NoError(t, err)
		require.Contains(t, made, hash, "what is made is sent")
		c, err := object.GetCommit(s.store, hash)
		require.NoError(t, err)
		require.Contains(t, made, c.TreeHash)
		if s.parent != nil {
			require.Equal(t, []plumbing.Hash{s.parent.Hash}, c.ParentHashes)
		}
		s.parent = c
		tree, err := c.Tree()
		require.NoError(t, err)
		var names []string
		require.NoError(t, tree.Files().ForEach(func(f *object.File) error { names = append(names, f.Name); return nil }))
		return names
	}
	require.Equal(t, []string{"a/b/c", "d"}, files(Tree{"a/b/c": []byte("x"), "d": []byte("y")}))
	require.Equal(t, []string{"d"}, files(Tree{"a/b/c": nil}))
	require.Empty(t, files(Tree{"d": nil}))
	require.Equal(t, "4b825dc642cb6eb9a060e54bf8d69288fbee4904", s.parent.TreeHash.String())
}
