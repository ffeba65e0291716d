package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// habits are names from other tools for what is called otherwise here.
var habits = map[string]string{
	"cpus": "cores", "vcpus": "cores", "ram": "memory", "mem": "memory", "ip": "address", "ipaddress": "address",
	"nameservers": "dns", "dnsservers": "dns", "searchdomain": "search", "cidr": "prefix", "subnet": "prefix", "gw": "gateway",
	"replicas": "count", "size": "count", "url": "endpoint", "apiurl": "endpoint", "tokenid": "token", "tokensecret": "secret",
	"cafile": "ca", "id": "vmid", "macaddress": "mac", "datastore": "storage", "proxmoxnode": "host", "bios": "image",
	"clustercidr": "podCIDR", "podsubnet": "podCIDR", "servicesubnet": "serviceCIDR", "apivip": "vip", "flavor": "flavour",
	"keys": "publicKeys", "authorizedkeys": "publicKeys", "sshkeys": "publicKeys", "gpu": "gpus", "mtusize": "mtu", "bastion": "jump",
	"checksum": "sha256", "mountpoint": "mount", "path": "mount", "filesystem": "fs", "cputype": "cpu", "count": "names",
}

// suggest returns the known name that was most likely meant, or "".
func suggest(name string, known []string) string {
	plain := plainName(name)
	for _, k := range known {
		if plainName(k) == plain {
			return k
		}
	}
	if h, ok := habits[plain]; ok && slices.Contains(known, h) {
		return h
	}
	best, bestDistance := "", 1+max(1, len(plain)/3)
	for _, k := range known {
		if d := distance(plain, plainName(k)); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// orSuggest is the cure for an unknown word: the likely one, or all of them.
func orSuggest(name string, known []string) string {
	if s := suggest(name, known); s != "" {
		return fmt.Sprintf("did you mean %q?", s)
	}
	return "write " + oneOf(known)
}

// oneOf joins words as in "a, b or c".
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// plainName drops what people vary in names: case, hyphens and underscores.
func plainName(s string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
}

// distance is the number of single edits (a letter more, less, other, or two
// neighbours swapped) between a and b: optimal string alignment.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	x, y := []rune(a), []rune(b)
	before, last := []int(nil), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row := make([]int, len(y)+1)
		row[0] = i
		for j := 1; j <= len(y); j++ {
			same := 1
			if x[i-1] == y[j-1] {
				same = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+same)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(y)]
}
