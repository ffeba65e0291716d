package proxmoxcsi_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/cps-gpu/homelab/sim/proxmoxcsi"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A volume of a simulated Proxmox VE goes into the first free slot of a node's machine.
func Example() {
	host := pvesim.New(pvesim.OneGPU(), pvesim.Options{Speed: 1000})
	defer host.Close()
	id, secret := host.Token()
	ctx := context.Background()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://pve1:8006/api2/json/nodes/pve1/qemu", strings.NewReader(`{"vmid":201,"name":"wk1"}`))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Authorization", "PVEAPIToken="+id+"="+secret)
	req.Header.Set("Content-Type", "application/json")
	res, err := host.Client().Do(req)
	if err != nil {
		log.Fatal(err)
	}
	_ = res.Body.Close()
	host.Settle()

	config := "clusters: [{url: 'https://pve1:8006/api2/json', region: home, token_id: '" + id + "', token_secret: '" + secret + "'}]"
	driver, err := proxmoxcsi.New([]byte(config), host.Client(), 1)
	if err != nil {
		log.Fatal(err)
	}
	volume, err := driver.Create(ctx, "pvc-1", "vmdata", "pve1", 1<<30)
	if err != nil {
		log.Fatal(err)
	}
	slot, err := driver.Attach(ctx, volume.ID, proxmoxcsi.Node{Name: "wk1", ProviderID: "proxmox://home/201"})
	fmt.Println(volume.ID, slot, err)
	// Output: home/pve1/vmdata/vm-9999-pvc-1 scsi1 <nil>
}
