package nvidia_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/remote"
)

func TestOperatorDriver(t *testing.T) {
	for branch, want := range map[string]string{
		"": "580.126.20", "auto": "580.126.20", "580-server": "580.126.20", "580": "580.126.20", "595-server-open": "595.91.07",
	} {
		got, err := nvidia.OperatorDriver(branch)
		require.NoError(t, err, branch)
		assert.Equal(t, want, got, branch)
	}
	for branch, want := range map[string]string{
		"new":        "that is not a branch",
		"535-server": "no container of the GPU operator with it is known: write 580 or 595",
	} {
		_, err := nvidia.OperatorDriver(branch)
		assert.ErrorContains(t, err, want, branch)
	}
}

func TestOperatorRuntime(t *testing.T) {
	for out, want := range map[string]string{
		"":                   "runtime: missing → installed by the GPU operator",
		"installed\n":        "runtime: not found by K3s → found [K3s looks for it at its start, so it starts again; pods keep running]",
		"installed\nfound\n": "",
	} {
		s, err := nvidia.ObserveOperatorRuntime(t.Context(), says(out))
		require.NoError(t, err)
		assert.Equal(t, want, s.Diff().String())
	}
	s, err := nvidia.ObserveOperatorRuntime(t.Context(), says("installed linux-modules-nvidia-580-server-open-generic\nnot-installed nvidia-dkms-580\n"))
	require.NoError(t, err)
	assert.Equal(t, []string{"linux-modules-nvidia-580-server-open-generic"}, s.Host)
}

// says is a machine on which every command prints a text.
type says string

func (s says) Run(_ context.Context, cmd remote.Cmd) error {
	_, err := io.WriteString(cmd.Stdout, string(s))
	return err
}
