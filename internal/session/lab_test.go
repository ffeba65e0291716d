package session

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/clusterfile"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/labmodel"
	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/spec"
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
	s, err := clusterfile.Parse(file, []byte(text.String()))
	require.NoError(t, err)
	return s
}

// TestTheLabsHardwareFitsTheFile chooses for a lab that is not running.
func TestTheLabsHardwareFitsTheFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".lab")
	for example, want := range map[string]string{"one-gpu": "one-gpu", "eight-a100": "eight-a100"} {
		s := &Session{Spec: labFile(t, example)}
		model, err := s.labModel(t.Context(), dir)
		require.NoError(t, err)
		assert.Equal(t, want, model)
	}
	s := &Session{Spec: labFile(t, "mixed-hosts")}
	model, err := s.labModel(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "model-mixed.yaml"), model)
	m, err := pvesim.LoadModel(model)
	require.NoError(t, err)
	assert.Empty(t, labmodel.Lacks(m, s.Spec), "what was written is what fits")

	model, err = new(Session).labModel(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, labctl.DefaultModel, model, "without a file")
}

// TestALabThatRunsIsKeptAsLongAsItFits, and is refused with what it lacks.
func TestALabThatRunsIsKeptAsLongAsItFits(t *testing.T) {
	dir := t.TempDir()
	lock, err := labctl.Alive(dir)
	require.NoError(t, err)
	defer lock.Unlock()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	require.NoError(t, labctl.WriteState(dir, labctl.State{PID: 1, Model: "eight-a100", Endpoint: server.URL,
		Fingerprint: labctl.Fingerprint(server.Certificate().Raw)}))

	for _, s := range []*Session{{}, {Spec: labFile(t, "one-gpu")}, {Spec: labFile(t, "eight-a100")}} {
		model, err := s.labModel(t.Context(), dir)
		require.NoError(t, err, "eight cards are enough for one")
		assert.Equal(t, "eight-a100", model)
	}
	s := &Session{Spec: labFile(t, "mixed-hosts")}
	_, err = s.labModel(t.Context(), dir)
	assert.ErrorContains(t, err, `the lab runs with the hardware "eight-a100", which does not fit mixed: there is no host atlas, there is no host boreas`)
	assert.ErrorContains(t, err, "go tool mage lab:stop")
}
