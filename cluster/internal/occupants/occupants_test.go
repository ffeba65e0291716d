package occupants_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/internal/occupants"
	"github.com/cps-gpu/homelab/remote"
)

func TestObserve(t *testing.T) {
	says := "k3s unit k3s.service\nrke2 folder /etc/rancher/rke2\nrke2 unit rke2-agent.service\nrke2 unit rke2-agent.service\n\nnothing\nkubernetes process kubelet\n"
	found, err := occupants.Observe(t.Context(), remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
		_, err := io.WriteString(c.Stdout, says)
		return err
	}))
	require.NoError(t, err)
	assert.Equal(t, "unit k3s.service", found.List("k3s"))
	assert.Empty(t, found.List("k0s"))
	assert.Equal(t, "Kubernetes is there already, of a tool that homelab does not know (process kubelet) and RKE2 (folder /etc/rancher/rke2, unit rke2-agent.service): "+
		"move its work and remove it (as its documentation says; rke2-uninstall.sh), or take wk9 out of the file", found.Others("k3s", "wk9"))
	delete(found, "rke2")
	delete(found, "kubernetes")
	assert.Empty(t, found.Others("k3s", "wk9"))
	assert.Contains(t, found.Others("kubeadm", "wk9"), "of K3s (unit k3s.service): move its work and remove it (k3s-uninstall.sh or k3s-agent-uninstall.sh)")

	lost := errors.New("lost")
	_, err = occupants.Observe(t.Context(), remote.RunnerFunc(func(context.Context, remote.Cmd) error { return lost }))
	require.ErrorIs(t, err, lost)
}
