package session

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/labmodel"
)

// labFile is an example's file, moved into the lab.
func labFile(t *testing.T, example string) *spec.Spec {
	t.Helper()
	file := "../../examples/" + example + "/cluster.yaml"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var text strings.Builder
	for line := range strings.Lines(string(data)) {
		switch key, _, _ := strings.Cut(strings.TrimSpace(line), ":"); key {
		case "endpoint":
			text.WriteString("  endpoint: lab\n")
		case "token", "secret", "fingerprint", "ca":
		default:
			text.WriteString(line)
		}
	}
	s, err := cluster.Parse(file, []byte(text.String()))
	require.NoError(t, err)
	return s
}

// TestALabThatRunsIsKeptAsLongAsItFits, and is refused with what it lacks.
func TestALabThatRunsIsKeptAsLongAsItFits(t *testing.T) {
	lab := labctl.State{Model: "eight-a100", Hardware: labmodel.HardwareOf(preset(t, "eight-a100"))}
	for _, s := range []*Session{{}, {Spec: labFile(t, "one-gpu")}, {Spec: labFile(t, "eight-a100")}} {
		require.NoError(t, s.labFits(lab), "eight cards are enough for one")
	}
	s := &Session{Spec: labFile(t, "mixed-hosts")}
	err := s.labFits(lab)
	assert.Equal(t, invalid, code(err))
	assert.ErrorContains(t, err, `the lab runs with the hardware "eight-a100", which does not fit mixed: there is no host atlas, there is no host boreas`)
	assert.ErrorContains(t, err, "homelab lab:stop")
}
