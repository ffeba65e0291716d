package k3s_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/k3s"
)

func TestCheckKubeletArgs(t *testing.T) {
	check := func(off bool, args any) []k3s.ArgFault {
		return k3s.CheckKubeletArgs(map[string]any{"kubelet-arg": args, "disable-cloud-controller": off})
	}
	assert.Empty(t, k3s.CheckKubeletArgs(nil))
	assert.Empty(t, check(false, []any{"max-pods=150", "cloud-provider=external"}), "K3s' own controller is there")
	assert.Len(t, check(true, []any{"provider-id=proxmox://home/1", "root-dir=/data", "--node-ip=10.0.0.1"}), 3)
	assert.Len(t, check(true, "root-dir=/data"), 1)
	waits := check(true, []any{"cloud-provider=external"})
	assert.Len(t, waits, 1)
	assert.True(t, waits[0].Allowed)
}
