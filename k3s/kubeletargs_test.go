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

	for arg, wrong := range map[string]bool{
		"max-pods=250": false, "max-pods=abc": true, "max-pods=0": true, "max-pods=": true,
		"system-reserved=cpu=500m,memory=1Gi": false, "kube-reserved=cpu=1,memory=1.5Gi,ephemeral-storage=1Gi,pid=1000": false, "system-reserved=memory=5e8": false,
		"system-reserved=cpu=500m,memory=1GB": true, "kube-reserved=cpu:1": true, "kube-reserved=ram=1Gi": true, "system-reserved=cpu=-1": true,
		"eviction-hard=memory.available<500Mi,nodefs.available<10%,imagefs.inodesFree<5%": false, "eviction-hard=memory.available>500Mi": true, "eviction-soft=memory.available<1G": false,
	} {
		assert.Equal(t, wrong, len(check(false, []any{arg})) == 1, arg)
	}
	assert.Equal(t, 250, k3s.MaxPods(map[string]any{"kubelet-arg": []any{"v=2", "--max-pods=250"}}))
	assert.Zero(t, k3s.MaxPods(nil))
}
