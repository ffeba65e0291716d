package session

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
)

const pair = `
name: pair
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1}
defaults: {storage: vmdata}
nodes:
  cp1: {role: server, address: 10.0.0.11, cores: 2, memory: 4GiB}
`

func TestTemplateCommands(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		require.NoError(t, w.do(pair, Options{}, TemplateList))
		assert.Contains(t, w.talk.String(), "There is no template yet")
		require.NoError(t, w.do(pair, Options{}, with(UpFlags{}, Up)))
		time.Sleep(15 * time.Second)

		require.NoError(t, w.do(pair, Options{}, TemplateList))
		assert.Regexp(t, `(?m)^pve1 +\d+ +pair-template-pve1-\w{12} +current +3584MiB +2000-01-01 +K3s v1\.36\.5\+k3s1, on ubuntu-24\.04-server-cloudimg-amd64\.img +cp1$`, w.data.String())
		require.NoError(t, w.do(pair, Options{JSON: true}, TemplateList))
		var info cluster.TemplateInfo
		require.NoError(t, json.Unmarshal(w.data.Bytes(), &info))
		assert.Equal(t, "v1.36.5+k3s1", info.Holds.K3s)
		assert.Equal(t, []string{"cp1"}, info.Nodes)

		require.NoError(t, w.do(pair, Options{}, with(ChangeFlags{}, TemplatePrune)))
		assert.Contains(t, w.talk.String(), "Nothing to remove")

		// Its node is gone and the file wants another: there is something to remove, and
		// nobody to say yes.
		require.NoError(t, w.do(pair, Options{}, func(s *Session, ctx context.Context) error {
			vm, err := s.Cluster.Proxmox.VMs.Get(ctx, "homelab-pair", "cp1")
			require.NoError(t, err)
			return s.Cluster.Proxmox.VMs.Remove(ctx, vm)
		}))
		time.Sleep(15 * time.Second)
		newer := strings.ReplaceAll(pair, "v1.36.5+", "v1.36.6+")
		assert.Equal(t, refused, code(w.do(newer, Options{}, with(ChangeFlags{}, TemplatePrune))))
		assert.Contains(t, w.data.String()+w.talk.String(), "pair-template-pve1-")
		require.NoError(t, w.do(newer, Options{}, with(ChangeFlags{Yes: true}, TemplatePrune)))
		require.NoError(t, w.do(newer, Options{}, TemplateList))
		assert.Contains(t, w.talk.String(), "There is no template yet")
	})
}
