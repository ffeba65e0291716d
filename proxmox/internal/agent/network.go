package agent

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
)

// Addresses returns the addresses that a guest has on its first network card as its agent reports
// them, in the guest's order, without loopback and link-local ones: all of the guest's if the
// card's MAC address is not known. It is for guests that get their addresses from a DHCP server.
func (a *Agents) Addresses(ctx context.Context, vm VM) ([]netip.Addr, error) {
	var answer struct {
		Result []struct {
			Name      string `json:"name"`
			MAC       string `json:"hardware-address"`
			Addresses []struct {
				Address string `json:"ip-address"`
			} `json:"ip-addresses"`
		} `json:"result"`
	}
	if err := a.request(ctx, vm, "network-get-interfaces", nil, &answer); err != nil {
		return nil, fmt.Errorf("addresses of %s: %w", vm, err)
	}
	var out []netip.Addr
	for _, nic := range answer.Result {
		if vm.MAC != "" && !strings.EqualFold(vm.MAC, nic.MAC) {
			continue
		}
		for _, a := range nic.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			if err == nil && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
				out = append(out, addr)
			}
		}
	}
	return out, nil
}
