package firstboot

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/spec"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestSeedsDoNotChangeByThemselves holds the digests of first boots. A VM is what its
// seed made of it, so another digest for the same file asks every user to replace
// every VM: change these only together with a way to keep the VMs that are there,
// and an entry in the changelog.
func TestSeedsDoNotChangeByThemselves(t *testing.T) {
	keys := []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHVzZWQgaW4gdGVzdHMgYW5kIG5vd2hlcmUgZWxzZSE= test"}
	var got strings.Builder
	for _, example := range []string{"eight-a100", "one-gpu", "mixed-hosts"} {
		file, err := clusterfile.Load("../../../examples/" + example + "/cluster.yaml")
		require.NoError(t, err)
		for _, n := range file.Nodes {
			if n.External {
				continue
			}
			render := cloudinit.RenderServer
			if n.Role == spec.Agent {
				render = cloudinit.RenderWorker
			}
			doc, err := render(cloudMachine(file, n, keys))
			require.NoError(t, err)
			digest, err := doc.Digest()
			require.NoError(t, err)
			fmt.Fprintf(&got, "%s %s %s\n", example, n.Name, digest[:12])
		}
	}
	const golden = "testdata/seeds.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got.String())
}
