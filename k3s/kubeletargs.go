package k3s

import (
	"fmt"
	"strings"
)

// ArgFault is an argument of kubelet that does not do what it looks like.
type ArgFault struct {
	What, Do string
	Allowed  bool // it works, but not alone
}

// CheckKubeletArgs returns what is wrong with kubelet-arg in keys that all nodes share.
func CheckKubeletArgs(extra map[string]any) []ArgFault {
	list, ok := extra["kubelet-arg"].([]any)
	if one, isText := extra["kubelet-arg"].(string); isText {
		list, ok = []any{one}, true
	}
	if !ok {
		return nil
	}
	var out []ArgFault
	for _, a := range list {
		name, value, _ := strings.Cut(strings.TrimLeft(fmt.Sprint(a), "-"), "=")
		switch name {
		case "provider-id":
			out = append(out, ArgFault{What: "kubelet-arg provider-id would be the same on all nodes, and no node's can be changed later",
				Do: "remove it: the cloud controller that you install sets it, with server: {disable-cloud-controller: true} and kubelet-arg: [cloud-provider=external]"})
		case "root-dir":
			out = append(out, ArgFault{What: "kubelet-arg root-dir moves a folder that storage drivers look for in /var/lib/kubelet",
				Do: "remove it, and give new nodes a disk that is mounted there: disks: {kubelet: {size: 200GiB, mount: /var/lib/kubelet}}"})
		case "node-ip", "hostname-override":
			out = append(out, ArgFault{What: fmt.Sprintf("kubelet-arg %s would be the same on all nodes", name), Do: "remove it: homelab sets each node's name and address"})
		case "cloud-provider":
			if value == "external" && extra["disable-cloud-controller"] == true {
				out = append(out, ArgFault{Allowed: true, What: "nodes stay tainted (node.cloudprovider.kubernetes.io/uninitialized) until a cloud controller knows them, and pods wait for it",
					Do: "install yours as soon as the servers run; parts of this file wait for it too"})
			}
		}
	}
	return out
}
