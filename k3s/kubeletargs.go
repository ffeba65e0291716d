package k3s

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ArgFault is an argument of kubelet that does not do what it looks like.
type ArgFault struct {
	What, Do string
	Allowed  bool // it works, but not alone
}

var (
	reserved = regexp.MustCompile(`^\s*(cpu|memory|ephemeral-storage|pid)\s*=\s*` + quantity + `\s*$`)
	eviction = regexp.MustCompile(`^\s*[a-zA-Z.]+\s*<\s*(` + quantity + `|[0-9.]+%)\s*$`)
)

// quantity is one of Kubernetes (k8s.io/apimachinery, resource.Quantity), not negative.
const quantity = `[0-9]*\.?[0-9]+([numkMGTPE]|[KMGTPE]i|[eE][0-9]+)?`

// all reports whether each part of a list is as the pattern says. Quotes, which a shell would take,
// are kubelet's to refuse.
func all(list string, pattern *regexp.Regexp) bool {
	for part := range strings.SplitSeq(list, ",") {
		if !pattern.MatchString(part) {
			return false
		}
	}
	return true
}

// kubeletArgs are the arguments of kubelet in keys of K3s: a list, or one text.
func kubeletArgs(extra map[string]any) []any {
	switch v := extra["kubelet-arg"].(type) {
	case string:
		return []any{v}
	case []string: // of a field, not of a file
		out := make([]any, len(v))
		for i := range v {
			out[i] = v[i]
		}
		return out
	case []any:
		return v
	}
	return nil
}

// MaxPods returns the number of pods that keys of K3s allow a node; 0 if they do not say it.
func MaxPods(extra map[string]any) int {
	for _, a := range kubeletArgs(extra) {
		if name, value, _ := strings.Cut(strings.TrimLeft(fmt.Sprint(a), "-"), "="); name == "max-pods" {
			n, _ := strconv.Atoi(value)
			return n
		}
	}
	return 0
}

// CheckKubeletArgs returns what is wrong with kubelet-arg in keys that all nodes share.
func CheckKubeletArgs(extra map[string]any) []ArgFault {
	var out []ArgFault
	for _, a := range kubeletArgs(extra) {
		name, value, _ := strings.Cut(strings.TrimLeft(fmt.Sprint(a), "-"), "=")
		switch name {
		case "provider-id":
			out = append(out, ArgFault{What: "kubelet-arg provider-id would be the same on all nodes, and no node's can be changed later",
				Do: "remove it: each VM's node gets proxmox://REGION/VMID when it joins, with proxmox.region as REGION"})
		case "root-dir":
			out = append(out, ArgFault{What: "kubelet-arg root-dir moves a folder that storage drivers look for in /var/lib/kubelet",
				Do: "remove it, and give new nodes a disk that is mounted there: disks: {kubelet: {size: 200GiB, mount: /var/lib/kubelet}}"})
		case "max-pods":
			if n, err := strconv.Atoi(value); err != nil || n < 1 {
				out = append(out, ArgFault{What: fmt.Sprintf("kubelet-arg max-pods is %q, and kubelet does not start", value), Do: "write a number, e.g. max-pods=150"})
			}
		case "kube-reserved", "system-reserved":
			if !all(value, reserved) {
				out = append(out, ArgFault{What: fmt.Sprintf("kubelet-arg %s is %q, and kubelet does not start", name, value), Do: "write quantities of Kubernetes, e.g. " + name + "=cpu=500m,memory=1Gi"})
			}
		case "eviction-hard", "eviction-soft":
			if !all(value, eviction) {
				out = append(out, ArgFault{What: fmt.Sprintf("kubelet-arg %s is %q, and kubelet does not start", name, value), Do: "write thresholds, e.g. " + name + "=memory.available<500Mi,nodefs.available<10%"})
			}
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
