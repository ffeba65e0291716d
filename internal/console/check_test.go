package console

import "testing"

func TestFindings(t *testing.T) {
	c := capture(80, "geheim-123")
	c.Findings([]Finding{
		{Grave: true, ID: "PX3", Subject: "0000:01:00", Evidence: "0000:01:00.0 (GeForce RTX 4090) on pve1, which gpu1 requests, shares IOMMU group 13 with 0000:05:00.0 Ethernet Controller X710 for 10GbE SFP+",
			Cure: "use another slot, or firmware with ACS"},
		{ID: "clock", Subject: "pve1", Evidence: "the clock of pve1 is \x1b[2Jgeheim-123 ahead", Cure: "on the host:", Command: "systemctl restart chrony"},
		{Grave: true, ID: "host", Evidence: "the Proxmox cluster has no majority of its hosts, so nothing can be changed"},
		{Grave: true, ID: "PX1", Subject: "/vms", Evidence: "the token homelab@pve!cluster lacks VM.Clone", Cure: "as root, on any host:",
			Command: "pveum role modify Homelab-vms --privs VM.Allocate,VM.Clone 2>/dev/null || pveum role add Homelab-vms --privs VM.Allocate,VM.Clone\npveum acl modify /vms --users homelab@pve --roles Homelab-vms"},
	})
	const shell = "only a shell on the host can tell: add -ssh=root@HOST"
	c.PrintUnchecked([]Finding{{ID: "PX9", Subject: "pve1", Evidence: shell}, {ID: "PX9", Subject: "pve2", Evidence: shell}, {ID: "PX19", Subject: "pve1", Evidence: shell},
		{ID: "token", Evidence: "the token cannot see its own expiry; on the host: pveum user token list homelab@pve"}})
	c.Summary("%s: %s", "pve1", "22 checks, 3 errors, 1 warning")
	golden(t, "findings.txt", c.data.String())
}
