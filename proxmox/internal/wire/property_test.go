package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

func TestParseProperties(t *testing.T) {
	p, err := wire.ParseProperties("local-lvm:vm-100-disk-0,discard=on,size=32G,serial=a=b")
	require.NoError(t, err)
	assert.Equal(t, "local-lvm:vm-100-disk-0", p.GetFirst("file", ""))
	assert.Equal(t, "a=b", p.Get("serial"))
	assert.True(t, p.Bool("discard"))
	assert.Equal(t, "local-lvm:vm-100-disk-0,size=64G,serial=a=b,ssd=1", p.With("size", "64G").With("discard", "").With("ssd", "1").String())
	assert.Equal(t, "1", wire.ParseLenient("a=1,b=2").GetFirst("x", "", "a", "b"))
	assert.Equal(t, []string{"", ""}, []string{p.Get("x"), p.GetFirst("x", "y")})
	assert.Empty(t, wire.ParseLenient("a,b"))
	for value, want := range map[string]bool{"1": true, "ON": true, "yes": true, "True": true, "0": false, "off": false, "": false} {
		assert.Equal(t, want, wire.Properties{{"x", value}}.Bool("x"), value)
	}
	p, err = wire.ParseProperties("")
	require.NoError(t, err)
	assert.Empty(t, p)
	for _, s := range []string{"a,b", "=x", "a=1,", ",", "a=1,,b=2"} {
		_, err := wire.ParseProperties(s)
		assert.ErrorContains(t, err, "property string", s)
	}
}

func FuzzParseProperties(f *testing.F) {
	for _, s := range []string{"virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=7", "host", "mapping=gpu0,pcie=1", "a=b=c", "order=scsi0;net0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := wire.ParseProperties(s)
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
