package proxmox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
)

func TestParsePCIAddress(t *testing.T) {
	for in, want := range map[string]string{
		"01:00": "0000:01:00", "01:00.0": "0000:01:00.0", "0000:01:00": "0000:01:00", "0000:41:00.1": "0000:41:00.1",
		"E1:1F.7": "0000:e1:1f.7", " 41:00.* ": "0000:41:00", "00010000:01:00.0": "10000:01:00.0",
	} {
		a, err := proxmox.ParsePCIAddress(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, a.String())
	}
	for _, in := range []string{"", "1:0", "01:00.8", "01:20.0", "zz:00.0", "01:00.0;02:00.0", "0000:01:00.00", "01.00"} {
		_, err := proxmox.ParsePCIAddress(in)
		assert.ErrorContains(t, err, "PCI address", in)
	}
	whole, fn := must(proxmox.ParsePCIAddress("41:00")), must(proxmox.ParsePCIAddress("41:00.1"))
	assert.True(t, whole.Contains(fn))
	assert.False(t, fn.Contains(whole))
	assert.Negative(t, whole.Compare(fn))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func FuzzParsePCIAddress(f *testing.F) {
	for _, s := range []string{"0000:01:00.0", "01:00", "E1:1F.7", "41:00.*", "::", "ffffffff:ff:1f.7"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := proxmox.ParsePCIAddress(s)
		if err != nil {
			return
		}
		again, err := proxmox.ParsePCIAddress(a.String())
		require.NoError(t, err)
		assert.Equal(t, a, again)
	})
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

func TestSize(t *testing.T) {
	for in, want := range map[string]proxmox.Size{
		"16GiB": 16 * proxmox.GiB, "16G": 16 * proxmox.GiB, "16 GB": 16 * proxmox.GiB, "64M": 64 * proxmox.MiB, "1.5TiB": 1536 * proxmox.GiB,
		"528K": 528 * proxmox.KiB, "4096": 4096, "0": 0, "1B": 1,
	} {
		got, err := proxmox.ParseSize(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "G", "16 cats", "-1G", "9999999999T", "1.2.3G", "1e3"} {
		_, err := proxmox.ParseSize(in)
		assert.ErrorContains(t, err, "size", in)
	}
	assert.Equal(t, "16GiB 1536MiB 0B 1000B 2TiB",
		strings.Join([]string{(16 * proxmox.GiB).String(), (1536 * proxmox.MiB).String(), proxmox.Size(0).String(), proxmox.Size(1000).String(), (2 * proxmox.TiB).String()}, " "))
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"16GiB", "1.5T", "0", "528K", ".5G", "9223372036854775807"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := proxmox.ParseSize(s)
		if err != nil {
			return
		}
		assert.GreaterOrEqual(t, n, proxmox.Size(0))
		again, err := proxmox.ParseSize(n.String())
		require.NoError(t, err)
		assert.Equal(t, n, again)
	})
}
