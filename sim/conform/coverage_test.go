package conform

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCoverage(t *testing.T) {
	r, err := Coverage("../..")
	require.NoError(t, err)
	require.NoError(t, r.Err())
	var b bytes.Buffer
	require.NoError(t, r.Print(&b))
	t.Log("\n" + b.String())
	for _, tree := range r.Trees {
		assert.NotZero(t, tree.Methods, tree.Path)
	}
}
