package proxmox

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Namesake returns the one VM with that name that does not belong to owner, or nil if there is
// none. Several are an error, because the name is ambiguous.
func (c *VMClient) Namesake(ctx context.Context, owner, name string) (*VM, error) {
	_, foreign, err := c.named(ctx, owner, name)
	if err != nil || len(foreign) == 0 {
		return nil, err
	}
	if len(foreign) > 1 {
		var ids []string
		for _, vm := range foreign {
			ids = append(ids, fmt.Sprint(vm.VMID))
		}
		slices.Sort(ids)
		return nil, fmt.Errorf("proxmox: VMs %s are all called %s and do not belong to the cluster: rename all but the one to adopt", strings.Join(ids, " and "), name)
	}
	return foreign[0], nil
}
