package clusterfile

import (
	"encoding"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

func TestMAC(t *testing.T) {
	for in, want := range map[string]string{
		"BC:24:11:00:00:01": "bc:24:11:00:00:01", "bc-24-11-00-00-01": "bc:24:11:00:00:01",
		"01:00:5e:00:00:01": "", "00:00:00:00:00:00": "", "bc:24:11:00:00": "", "bc:24:11:00:00:00:00:01": "",
	} {
		got, err := spec.ParseMAC(in)
		if want == "" {
			assert.Error(t, err, in)
			continue
		}
		require.NoError(t, err, in)
		assert.Equal(t, want, got.String())
	}
	assert.Equal(t, spec.StableMAC("a", "n1"), spec.StableMAC("a", "n1"))
	assert.NotEqual(t, spec.StableMAC("a", "n1"), spec.StableMAC("a", "n2"))
	assert.NotEqual(t, spec.StableMAC("a", "bn"), spec.StableMAC("ab", "n"), "the border between the names counts")
	assert.EqualValues(t, 2, spec.StableMAC("a", "n1")[0]&3, "locally administered, not multicast")
}

func TestTaint(t *testing.T) {
	for in, want := range map[string]spec.Taint{
		"nvidia.com/gpu=present:NoSchedule": {Key: "nvidia.com/gpu", Value: "present", Effect: "NoSchedule"},
		"dedicated:NoExecute":               {Key: "dedicated", Effect: "NoExecute"},
		"a=:PreferNoSchedule":               {Key: "a", Effect: "PreferNoSchedule"},
	} {
		got, err := spec.ParseTaint(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got)
	}
	for _, in := range []string{"", "a", "a=b", ":NoSchedule", "a:NoShedule", "a b:NoSchedule", "a=b c:NoSchedule", "/a:NoSchedule", "a/b/c:NoSchedule"} {
		_, err := spec.ParseTaint(in)
		assert.Error(t, err, in)
	}
}

func TestRanges(t *testing.T) {
	for in, want := range map[string][2]string{
		"10.0.0.11": {"10.0.0.11", "10.0.0.11"}, "10.0.0.11-10.0.0.13": {"10.0.0.11", "10.0.0.13"}, "10.0.0.11-13": {"10.0.0.11", "10.0.0.13"},
		"10.0.0.11 - 10.0.1.3": {"10.0.0.11", "10.0.1.3"}, "fd00::1-fd00::f": {"fd00::1", "fd00::f"},
	} {
		var r spec.AddressRange
		require.NoError(t, r.UnmarshalText([]byte(in)), in)
		assert.Equal(t, want, [2]string{r.From.String(), r.To.String()})
	}
	for _, in := range []string{"", "-", "10.0.0.13-10.0.0.11", "10.0.0.1-fd00::1", "10.0.0.0/24", "10.0.0.1-10.0.0.2-10.0.0.3", "fe80::1%eth0", "fe80::1-fe80::2%eth0", "fe80::1-x", "10.0.0.11-300"} {
		var r spec.AddressRange
		assert.Error(t, r.UnmarshalText([]byte(in)), in)
	}
	for _, in := range []string{"", "99", "204-201", "a", "201-", "1000000000", "201-204-207"} {
		var r spec.VMIDRange
		assert.Error(t, r.UnmarshalText([]byte(in)), in)
	}
}

func TestSecretRef(t *testing.T) {
	r, err := spec.ParseSecretRef("env:HOMELAB_TEST_SECRET")
	require.NoError(t, err)
	_, err = r.Resolve()
	require.ErrorContains(t, err, "HOMELAB_TEST_SECRET")
	t.Setenv("HOMELAB_TEST_SECRET", "s3cret")
	v, err := r.Resolve()
	require.NoError(t, err)
	assert.Equal(t, "s3cret", v.Reveal())
	assert.Equal(t, "env:HOMELAB_TEST_SECRET", r.String())

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte("s3cret\n"), 0o600))
	r, err = spec.ParseSecretRef("file:token")
	require.NoError(t, err)
	v, err = r.RelativeTo(dir).Resolve()
	require.NoError(t, err)
	assert.Equal(t, "s3cret", v.Reveal())

	for _, in := range []string{"hunter2", "", "env:", "env:a b", "file:", "ENV:X", "vault:x"} {
		_, err := spec.ParseSecretRef(in)
		require.ErrorIs(t, err, spec.ErrInlineSecret, in)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	for _, in := range []string{"sops:a.yaml", "sops:", "sops:#a", "sops:a.yaml#"} {
		_, err = spec.ParseSecretRef(in)
		require.ErrorIs(t, err, spec.ErrSOPS, in)
	}
	r, err = spec.ParseSecretRef("sops:secrets.yaml#proxmox.token")
	require.NoError(t, err)
	assert.Equal(t, "sops:secrets.yaml#proxmox.token", r.String())
	_, err = r.RelativeTo(dir).Resolve()
	require.ErrorContains(t, err, filepath.Join(dir, "secrets.yaml")+" does not exist")
	_, err = spec.SecretRef{}.Resolve()
	require.Error(t, err)
}

func TestLastAddr(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.0/24": "10.0.0.255", "172.16.40.0/22": "172.16.43.255", "10.0.0.4/30": "10.0.0.7", "0.0.0.0/0": "255.255.255.255",
		"10.0.0.1/32": "10.0.0.1", "fd00::/64": "fd00::ffff:ffff:ffff:ffff", "fd00::/127": "fd00::1",
	} {
		assert.Equal(t, want, spec.LastAddr(netip.MustParsePrefix(in)).String(), in)
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"memory", "cores", "podCIDR", "gateway", "count"}
	for in, want := range map[string]string{
		"memroy": "memory", "Memory": "memory", "ram": "memory", "cpus": "cores", "pod-cidr": "podCIDR", "clusterCIDR": "podCIDR", "gatway": "gateway", "wholly": "", "x": "",
	} {
		assert.Equal(t, want, decode.Likely(in, known), in)
	}
}

// texts are the types that the file's values decode into.
func texts() map[string]encoding.TextUnmarshaler {
	return map[string]encoding.TextUnmarshaler{
		"size": new(spec.Size), "pci": new(spec.PCIAddress), "mac": new(spec.MAC), "taint": new(spec.Taint), "addresses": new(spec.AddressRange), "vmids": new(spec.VMIDRange),
		"startup": new(spec.Startup), "mode": new(spec.FileMode), "secret": new(spec.SecretRef),
	}
}

func FuzzTaint(f *testing.F) {
	for _, s := range []string{"a=b:NoSchedule", "nvidia.com/gpu:NoExecute", "a=:PreferNoSchedule"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := spec.ParseTaint(s)
		if err != nil {
			return
		}
		again, err := spec.ParseTaint(a.String())
		require.NoError(t, err)
		assert.Equal(t, a, again)
	})
}

// FuzzQuantities: nothing that can stand for a value makes its type panic, and
// what may be a secret is not repeated.
func FuzzQuantities(f *testing.F) {
	for _, s := range []string{"10.0.0.11-13", "201-204", "order=1,up=30", "0644", "env:X", "a@b!c", "fe80::1%x-2", "-", "::-::1", "hunter2hunter2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, u := range texts() {
			err := u.UnmarshalText([]byte(s))
			if err != nil && len(s) > 12 && name == "secret" {
				assert.NotContains(t, err.Error(), s)
			}
		}
	})
}
