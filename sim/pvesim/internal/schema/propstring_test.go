package schema

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func FuzzParseProps(f *testing.F) {
	s := Load()
	config := s.Methods["PUT /nodes/{node}/qemu/{vmid}/config"].Parameters
	for _, seed := range []string{"virtio,bridge=vmbr0", "virtio=BC:24:11:00:00:01,bridge=vmbr0,queues=8", "a=b=c,,d", "=,", "model=virtio,model=e1000"} {
		f.Add("net0", seed)
	}
	f.Add("scsi0", "vmdata:0,import-from=local:import/x.qcow2,discard=on")
	f.Add("hostpci0", "mapping=gpu,pcie=1")
	f.Fuzz(func(t *testing.T, key, text string) {
		p := config[key]
		if p == nil || p.Format.Keys == nil {
			t.Skip()
		}
		in, err := ParseProps(p.Format.Keys, text)
		if err != nil || CheckProps(key, p.Format.Name, p.Format.Keys, text) != "" || key[:3] == "net" {
			return
		}
		again, err := ParseProps(p.Format.Keys, FormatProps(p.Format.Keys, in))
		require.NoError(t, err)
		assert.Equal(t, in, again)
	})
}
