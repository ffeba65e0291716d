package llm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each line is read, and its config makes the parameters that the model's card has.
func TestTable(t *testing.T) {
	all, err := parseTable(table)
	require.NoError(t, err)
	assert.Len(t, Names(), len(all))
	for _, m := range all {
		t.Logf("%s %.3f", m.Name, float64(m.Parameters())/1e9)
	}
}
