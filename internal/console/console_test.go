package console

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCommands: a library names a command as the program homelab reads it, and a person reads it as it is typed here.
func TestCommands(t *testing.T) {
	for program, want := range map[string]string{"": "go tool mage cluster:up", "homelab": "homelab cluster:up"} {
		var talk, data bytes.Buffer
		c := &Console{Talk: &talk, Data: &data, Program: program}
		c.Printf("run homelab cluster:up -spec=x.yaml; homelab: no")
		assert.Equal(t, "run "+want+" -spec=x.yaml; homelab: no\n", talk.String())
		require.NoError(t, Objects(c, []string{"<homelab cluster:up>"}))
		assert.Contains(t, data.String(), want)
		assert.Contains(t, c.Plain("do it: homelab cluster:up"), want)
	}
}
