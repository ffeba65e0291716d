package spec_test

import (
	"encoding"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// TestTexts: a word of the file is read, written as it was meant, and read again; what it cannot be is refused in words.
func TestTexts(t *testing.T) {
	for _, x := range []struct {
		make func() encoding.TextUnmarshaler
		good map[string]string // as it is written
		bad  map[string]string // what the error says
	}{
		{func() encoding.TextUnmarshaler { return &spec.AddressRange{} },
			map[string]string{"10.0.0.11": "10.0.0.11", "10.0.0.11-13": "10.0.0.11-10.0.0.13", " 10.0.0.11 - 10.0.1.2 ": "10.0.0.11-10.0.1.2", "fd00::1-fd00::2": "fd00::1-fd00::2", "10.0.0.1-1": "10.0.0.1"},
			map[string]string{"": `"" is not an address or a range of them`, "10.0.0": "is not an address", "10.0.0.1-": "is not an address", "10.0.0.1-fd00::1": "is not an address",
				"fe80::1%eth0": "is not an address", "fe80::1-fe80::2%eth0": "is not an address", "fd00::1-2": "is not an address", "10.0.0.3-2": `"10.0.0.3-2" runs backwards`}},
		{func() encoding.TextUnmarshaler { return &spec.AddressPool{} },
			map[string]string{"10.0.0.0/28": "10.0.0.0/28", "10.0.0.240-10.0.0.250": "10.0.0.240-10.0.0.250", "10.0.0.7": "10.0.0.7/32", " fd00::/120": "fd00::/120"},
			map[string]string{"10.0.0.1/28": `"10.0.0.1/28" is not a range of addresses`, "10.0.0.0/33": "is not a range", "x": "is not an address", "10.0.0.3-2": "runs backwards"}},
		{func() encoding.TextUnmarshaler { return new(spec.MAC) },
			map[string]string{"02:AB:00:00:00:01": "02:ab:00:00:00:01", "02-ab-00-00-00-01": "02:ab:00:00:00:01"},
			map[string]string{"": `"" is not a MAC address`, "02:ab:00:00:00:01:00:02": "is not a MAC address", "03:00:00:00:00:01": "is a multicast address, which no interface can have",
				"00:00:00:00:00:00": "is not an address that an interface can have"}},
		{func() encoding.TextUnmarshaler { return &spec.Taint{} },
			map[string]string{"a=b:NoSchedule": "a=b:NoSchedule", "a:NoExecute": "a:NoExecute", "example.com/a=:PreferNoSchedule": "example.com/a:PreferNoSchedule"},
			map[string]string{"a=b": `"a=b" is not a taint`, "a:Noschedule": `has the unknown effect "Noschedule"`, ":NoSchedule": `has the invalid key ""`, "a=b c:NoSchedule": `has the invalid value "b c"`}},
		{func() encoding.TextUnmarshaler { return &spec.SecretRef{} },
			map[string]string{"env:TOKEN": "env:TOKEN", "file:/x": "file:/x", "sops:a.yaml#b.c": "sops:a.yaml#b.c"},
			map[string]string{"hunter2": spec.ErrInlineSecret.Error(), "env:": spec.ErrInlineSecret.Error(), "env:a-b": spec.ErrInlineSecret.Error(), "file:": spec.ErrInlineSecret.Error(), "TOKEN": spec.ErrInlineSecret.Error(),
				"sops:a.yaml": spec.ErrSOPS.Error(), "sops:#b": spec.ErrSOPS.Error(), "sops:a#": spec.ErrSOPS.Error(), "vault:a": spec.ErrInlineSecret.Error()}},
		{func() encoding.TextUnmarshaler { return new(spec.FileMode) }, map[string]string{"644": "0644", "0600": "0600", "0o755": "0755", "7777": "7777"},
			map[string]string{"": `"" is not a file mode`, "64": "is not a file mode", "0888": "is not a file mode", "77777": "is not a file mode"}},
		{func() encoding.TextUnmarshaler { return &spec.Startup{} }, map[string]string{"order=1,up=30,down=60": "order=1,up=30,down=60", "up=5": "up=5", "down=7,order=2": "order=2,down=7"},
			map[string]string{"": `"" is not a place in the boot order`, "order=0": "is not a place", "wait=5": "is not a place", "order=x": "is not a place", "order=1,": "is not a place"}},
		{func() encoding.TextUnmarshaler { return &spec.VMIDRange{} }, map[string]string{"100": "100", "201 - 204": "201-204", "999999999": "999999999", "7000-7000": "7000"},
			map[string]string{"99": `"99" is not a VMID or a range of them`, "1000000000": "is not a VMID", "204-201": "is not a VMID", "x": "is not a VMID", "200-": "is not a VMID"}},
		{func() encoding.TextUnmarshaler { return new(spec.Cores) }, map[string]string{"0.5": "0.5", "2": "2", "500m": "0.5", "1.25": "1.25"},
			map[string]string{"": `"" is not an amount of CPU`, "-1": "is not an amount of CPU", "1.5m": "is not an amount of CPU", "1e3": "is not an amount of CPU"}},
	} {
		text := func(v any) string {
			if s, ok := v.(fmt.Stringer); ok {
				return s.String()
			}
			return fmt.Sprint(*v.(*spec.Cores))
		}
		for in, want := range x.good {
			v, again := x.make(), x.make()
			require.NoError(t, v.UnmarshalText([]byte(in)), "%T: %s", v, in)
			assert.Equal(t, want, text(v), "%T: %s", v, in)
			require.NoError(t, again.UnmarshalText([]byte(want)))
			assert.Equal(t, want, text(again))
			if m, ok := v.(encoding.TextMarshaler); ok {
				b, err := m.MarshalText()
				require.NoError(t, err)
				assert.Equal(t, want, string(b))
			}
		}
		for in, want := range x.bad {
			v := x.make()
			require.ErrorContains(t, v.UnmarshalText([]byte(in)), want, "%T: %s", v, in)
		}
	}
	var s spec.Startup
	require.NoError(t, s.UnmarshalText([]byte("order=3,up=30,down=60")))
	assert.Equal(t, spec.Startup{Order: 3, Up: 30 * time.Second, Down: time.Minute}, s)
	for in, instead := range map[string]string{"a=b": "write key=value:NoSchedule, with NoSchedule, PreferNoSchedule or NoExecute", "a:Noschedule": `did you mean "NoSchedule"?`} {
		var cure interface{ Instead() string }
		require.ErrorAs(t, new(spec.Taint).UnmarshalText([]byte(in)), &cure)
		assert.Equal(t, instead, cure.Instead())
	}
}

func TestAddressPools(t *testing.T) {
	pool := func(text string) (p spec.AddressPool) {
		require.NoError(t, p.UnmarshalText([]byte(text)))
		return p
	}
	for text, in := range map[string]map[string]bool{
		"10.0.0.16/28":    {"10.0.0.15": false, "10.0.0.16": true, "10.0.0.31": true, "10.0.0.32": false, "::a00:10": false},
		"10.0.0.5-10":     {"10.0.0.4": false, "10.0.0.5": true, "10.0.0.10": true, "10.0.0.11": false},
		"fd00:0:0:8::/61": {"fd00:0:0:7:ffff::": false, "fd00:0:0:8::": true, "fd00:0:0:f:ffff:ffff:ffff:ffff": true, "fd00:0:0:10::": false},
	} {
		for a, want := range in {
			assert.Equal(t, want, pool(text).Contains(netip.MustParseAddr(a)), "%s: %s", text, a)
		}
	}
	assert.False(t, spec.AddressPool{}.Contains(netip.Addr{}))
	assert.Equal(t, []string{"10.0.0.16/28", "10.0.0.5-10.0.0.10"}, (&spec.LoadBalancer{Addresses: []spec.AddressPool{pool("10.0.0.16/28"), pool("10.0.0.5-10")}}).Ranges())
}

func TestSwitches(t *testing.T) {
	for in, want := range map[string]spec.Switch{"true": spec.On, "false": spec.Off} {
		var s spec.Switch
		assert.False(t, s.IsOn())
		assert.Equal(t, []spec.Switch{spec.On, spec.Off}, []spec.Switch{s.Or(true), s.Or(false)})
		require.NoError(t, s.UnmarshalText([]byte(in)))
		assert.Equal(t, want, s)
		assert.Equal(t, in == "true", s.IsOn())
		assert.Equal(t, []spec.Switch{want, want}, []spec.Switch{s.Or(true), s.Or(false)})
		js, err := json.Marshal(s)
		require.NoError(t, err)
		assert.Equal(t, in, string(js))
		assert.Equal(t, in, s.String())
	}
}

// TestSecretRefs: a file is beside the cluster's file; a variable is not.
func TestSecretRefs(t *testing.T) {
	for in, want := range map[string]string{"file:token": "file:" + filepath.Join("dir", "token"), "file:/abs/token": "file:/abs/token", "env:TOKEN": "env:TOKEN", "sops:a.yaml#b": "sops:" + filepath.Join("dir", "a.yaml#b")} {
		r, err := spec.ParseSecretRef(in)
		require.NoError(t, err)
		assert.False(t, r.IsZero())
		assert.Equal(t, want, r.RelativeTo("dir").String())
	}
	assert.True(t, spec.SecretRef{}.RelativeTo("dir").IsZero())
	assert.Empty(t, spec.SecretRef{}.String())
	_, err := spec.SecretRef{}.Resolve()
	require.EqualError(t, err, "no secret is referred to here")
	t.Setenv("SPEC_TEST_TOKEN", "hunter2")
	r, _ := spec.ParseSecretRef("env:SPEC_TEST_TOKEN")
	v, err := r.Resolve()
	require.NoError(t, err)
	assert.Equal(t, "hunter2", v.Reveal())
	for in, want := range map[string]string{"file:/nowhere/token": "/nowhere/token", "sops:/nowhere/a.yaml#b": "/nowhere/a.yaml"} {
		r, _ := spec.ParseSecretRef(in)
		_, err := r.Resolve()
		require.ErrorContains(t, err, want)
	}
}

func TestProblems(t *testing.T) {
	p := spec.Problem{File: "a.yaml", Line: 3, Column: 5, What: "it is wrong", Cure: "write it right"}
	assert.Equal(t, "a.yaml:3:5: it is wrong; write it right", p.Error())
	p.Path, p.Cure = "Nodes[0].Name", ""
	assert.Equal(t, "Nodes[0].Name: it is wrong", p.Error())
	many := make(spec.Problems, 52)
	for i := range many {
		many[i] = p
	}
	assert.Equal(t, many[:50].Error()+"\n… and 2 more, of which some may go with these", many.Error())
	assert.Equal(t, p.Error()+"\n"+p.Error(), many[:2].Error())
}

func TestVersions(t *testing.T) {
	assert.True(t, spec.IsK3sVersion("v1.36.5+k3s1") && spec.IsChartVersion("v1.2.3-rc.1+x") && spec.IsChartVersion("1.2.3"))
	assert.False(t, spec.IsK3sVersion("v1.36.5") || spec.IsK3sVersion("1.36.5+k3s1") || spec.IsChartVersion("1.2") || spec.IsChartVersion("^1.2.3"))
}
