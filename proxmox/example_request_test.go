package proxmox_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A request for which there is no method. The host is a simulated one; for a real
// one leave out HTTPClient and say how its certificate is known.
func ExampleClient_Get() {
	host := pvesim.New(pvesim.EightA100(), pvesim.Options{Speed: 1000})
	defer host.Close()
	id, value := host.Token()

	ctx := context.Background()
	pve, err := proxmox.Dial(ctx, proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: host.Client()})
	if err != nil {
		fmt.Println(err)
		return
	}
	var bridges []struct {
		Name string `json:"iface"`
	}
	if err := pve.Get(ctx, "/nodes/pve1/network", map[string][]string{"type": {"bridge"}}, &bridges); err != nil {
		fmt.Println(err)
	}
	fmt.Println(len(bridges) > 0, bridges[0].Name)

	err = pve.Do(ctx, http.MethodPost, "/nodes/pve1/qemu/999/status/start", nil)
	fmt.Println(errors.Is(err, proxmox.ErrNotFound))
	// Output:
	// true vmbr0
	// true
}
