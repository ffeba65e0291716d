package proxmox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestParseProperties(t *testing.T) {
	p, err := proxmox.ParseProperties("local-lvm:vm-100-disk-0,discard=on,size=32G,serial=a=b")
	require.NoError(t, err)
	assert.Equal(t, "local-lvm:vm-100-disk-0", p.First("file", ""))
	assert.Equal(t, "a=b", p.Get("serial"))
	assert.True(t, p.Bool("discard"))
	assert.Equal(t, "local-lvm:vm-100-disk-0,size=64G,serial=a=b,ssd=1", p.With("size", "64G").With("discard", "").With("ssd", "1").String())
	for _, s := range []string{"a,b", "=x", "a=1,", ",", "a=1,,b=2"} {
		_, err := proxmox.ParseProperties(s)
		assert.ErrorContains(t, err, "property string", s)
	}
}

func FuzzParseProperties(f *testing.F) {
	for _, s := range []string{"virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=7", "host", "mapping=gpu0,pcie=1", "a=b=c", "order=scsi0;net0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := proxmox.ParseProperties(s)
		if err != nil {
			return
		}
		assert.Equal(t, s, p.String())
		for _, kv := range p {
			if kv.Key != "" {
				assert.NotContains(t, kv.Key, ",")
				assert.Empty(t, p.With(kv.Key, "").Get(kv.Key))
			}
		}
	})
}

func TestParseUPID(t *testing.T) {
	const text = "UPID:pve1:000005AB:00054957:6B007E61:qmstop:400:root@pam!full:"
	u, err := proxmox.ParseUPID(text)
	require.NoError(t, err)
	assert.Equal(t, proxmox.UPID{
		Node: "pve1", PID: 1451, PStart: 346455, Started: time.Unix(1795194465, 0).UTC(), Type: "qmstop", ID: "400", User: "root@pam!full",
	}, u)
	assert.Equal(t, text, u.String())
	_, err = proxmox.ParseUPID("UPID:pve1:0000045C:000540390:6B007E4A:imgcopy::k3s@pve!full:")
	require.NoError(t, err, "nine digits of process start, no id")
	for _, s := range []string{
		"", "UPID:x", "UPID::000005AB:00054957:6B007E61:qmstop:400:root@pam:", "UPID:pve1:5AB:00054957:6B007E61:qmstop:400:root@pam:",
		"UPID:pve1:000005AB:00054957:6B007E61:qmstop:400:root@pam", "UPID:p/1:000005AB:00054957:6B007E61:qmstop:400:root@pam:",
	} {
		_, err := proxmox.ParseUPID(s)
		assert.ErrorContains(t, err, "task id", s)
	}
}

func FuzzParseUPID(f *testing.F) {
	f.Add("UPID:pve1:000005AB:00054957:6B007E61:qmstop:400:root@pam!full:")
	f.Add("UPID:pve1:0000045C:000540390:6B007E4A:imgcopy::k3s@pve:")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := proxmox.ParseUPID(s)
		if err != nil {
			return
		}
		// Hexadecimal digits may be written in either case, and with a leading zero.
		again, err := proxmox.ParseUPID(u.String())
		require.NoError(t, err)
		assert.Equal(t, u, again)
	})
}
