package clusterfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
)

// edgeBase is a file that is right, with room for more of one pool and of the whole.
const edgeBase = `name: lab
proxmox: {endpoint: lab%s}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  wk: {count: 1, addresses: [10.0.0.21]%s}
%s`

// TestEdges holds what is just right, and what is just wrong, of values that have bounds or
// that depend on each other, against testdata/edges.txt.
func TestEdges(t *testing.T) {
	var out strings.Builder
	for _, group := range []struct {
		what  string
		cases []string
	}{{"node", nodeEdges()}, {"file", fileEdges()}, {"hub", hubEdges()}, {"proxmox", proxmoxEdges()}} {
		for _, c := range group.cases {
			text := ""
			switch group.what {
			case "node":
				user := ""
				if strings.Contains(c, "hugepages") || strings.Contains(c, "affinity") {
					user = ", user: root@pam"
				}
				text = fmt.Sprintf(edgeBase, user, ", "+c, "")
			case "file":
				text = fmt.Sprintf(edgeBase, "", ", gpus: 1", c)
			case "hub":
				text = fmt.Sprintf(edgeBase, "", ", gpus: 1, cores: 16, memory: 64GiB", "hub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}, "+c+"}")
				if strings.Contains(c, "auth:") {
					text = strings.Replace(text, "auth: {kind: native, admins: [teacher]}, ", "", 1)
				}
			case "proxmox":
				text = strings.Replace(fmt.Sprintf(edgeBase, "", "", ""), "{endpoint: lab}", "{"+c+"}", 1)
			}
			fmt.Fprintf(&out, "%s %s\n", group.what, strings.ReplaceAll(c, "\n", " ⏎ "))
			out.WriteString(judged(t, text))
			base := fmt.Sprintf(edgeBase, "", map[string]string{"file": ", gpus: 1"}[group.what], "")
			if group.what == "hub" {
				base = fmt.Sprintf(edgeBase, "", ", gpus: 1, cores: 16, memory: 64GiB", "hub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}}")
			}
			out.WriteString(became(t, base, text))
		}
	}
	golden(t, "testdata/edges.txt", out.String())
}

// judged is what is wrong with a file, and of what it warns, each with its place.
func judged(t *testing.T, text string) string {
	t.Helper()
	s, err := Parse("cluster.yaml", []byte(text), platform.Check)
	var all spec.Problems
	if err != nil {
		require.True(t, errors.As(err, &all), "%s: %v", text, err)
	} else {
		all = s.Warnings
	}
	var out strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(all.Error()), "\n") {
		if line != "" {
			fmt.Fprintf(&out, "    %s\n", strings.TrimPrefix(line, "cluster.yaml:"))
		}
	}
	return out.String()
}

// became is what an accepted file has for other values than the one that it is made of.
func became(t *testing.T, base, text string) string {
	t.Helper()
	s, err := Parse("cluster.yaml", []byte(text), platform.Check)
	if err != nil {
		return ""
	}
	before, after := flat(t, parsed(t, base)), flat(t, s)
	var out strings.Builder
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if v := after[path]; v != before[path] {
			fmt.Fprintf(&out, "    %s = %s\n", path, v[:min(len(v), 80)])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if _, there := after[path]; !there {
			fmt.Fprintf(&out, "    %s is gone\n", path)
		}
	}
	return out.String()
}

// flat has every value of a spec by its path.
func flat(t *testing.T, s *spec.Spec) map[string]string {
	t.Helper()
	b, err := json.Marshal(s)
	require.NoError(t, err)
	var v any
	require.NoError(t, json.Unmarshal(b, &v))
	out := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, inner := range v {
				walk(strings.TrimPrefix(path+"."+k, "."), inner)
			}
		case []any:
			for i, inner := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), inner)
			}
		case nil, bool:
			if v == true {
				out[path] = "true"
			}
		default:
			if text := fmt.Sprint(v); text != "" && text != "0" {
				out[path] = text
			}
		}
	}
	walk("", v)
	return out
}

func nodeEdges() []string {
	long := strings.Repeat("x", 8000)
	return []string{
		"disks: {a: {size: 1GiB}}", "disks: {a: {size: 0}}", "disks: {a: {size: 1536MiB}}", "disks: {a: {size: 1GiB, fs: xfs}}", "disks: {a: {size: 1GiB, fs: xfs, mount: /a}}",
		"disks: {a: {size: 1GiB, mount: /}}", "disks: {a: {size: 1GiB, mount: a}}", "disks: {a: {size: 1GiB, mount: /a/}}", "disks: {a: {size: 1GiB, mount: /a//b}}", "disks: {a: {size: 1GiB, mount: /a/../b}}",
		"disks: {a2345678901234567890: {size: 1GiB}}", "disks: {a23456789012345678901: {size: 1GiB}}", "disks: {a-: {size: 1GiB}}",
		"disks: {os: {size: 8GiB}}", "disks: {os: {size: 7GiB}}", "disks: {os: {size: 20GiB, fs: xfs}}", "disks: {os: {size: 20GiB, role: data}}", "disks: {" + someDisks(14) + "}", "disks: {" + someDisks(15) + "}",
		"disks: {os: {size: 20GiB}, a: {}}", "cores: 1", "cores: 1024", "cores: 0", "cores: 1025", "memory: 512MiB", "memory: 511MiB", "memory: 524289KiB", "vmids: [100]", "vmids: [99]",
		"description: " + long, "description: " + long + "y", "network: {vlan: 1}", "network: {vlan: 4094}", "network: {vlan: 0}", "network: {mtu: 576}", "network: {mtu: 575}", "network: {mtu: 65520}", "network: {mtu: 65521}",
		"network: {queues: 1}", "network: {queues: 64}", "network: {queues: 0}", "network: {queues: 65}",
		"hugepages: any, numa: true", "hugepages: none", "hugepages: any", "hugepages: 1GiB, numa: true, memory: 4GiB", "hugepages: 1GiB, numa: true, memory: 4098MiB", "hugepages: 2MiB, numa: true, memory: 4098MiB",
		"hugepages: 2MiB, numa: true, memory: 4097MiB", "affinity: 0-3", "affinity: none", "affinity: 3-0", "affinity: 4095", "affinity: 4096", "affinity: 3-3",
		"cores: 4, memory: 4GiB, numa: true, numaNodes: [{cpus: 0-1, memory: 2GiB}, {cpus: 2-3, memory: 2GiB}]", "cores: 4, memory: 4GiB, numa: true, numaNodes: [{cpus: 0-1, memory: 2GiB}, {cpus: 2-4, memory: 2GiB}]",
		"cores: 4, memory: 4GiB, numa: true, numaNodes: [{cpus: 0-2, memory: 4GiB}]", "cores: 4, memory: 4GiB, numa: true, numaNodes: [{cpus: 0-1, memory: 4GiB}, {cpus: 1-3}]", "cores: 1, memory: 4GiB, numa: true, numaNodes: [{cpus: x, memory: 4GiB}]",
		"gpus: {count: 0}", "gpus: {count: -1}", "gpus: {count: 16}", "gpus: {count: 17}", "gpus: {count: 2, pci: ['01:00', '02:00']}", "gpus: {count: 1, pci: ['01:00', '02:00']}", "gpus: {pci: ['01:00'], mapping: [gpu]}",
		"gpus: {mapping: [gpu]}", "gpus: {mapping: [g]}", "gpus: {model: ' A100'}", "gpus: {count: 1, model: A100}", "gpus: {count: 1, model: Nothing}", "gpus: {count: 1, model: T4, sharing: {strategy: mig, layouts: [{profiles: {1g.5gb: 7}}]}}",
		"gpus: {count: 1, sharing: {strategy: time-slicing}}", "gpus: {count: 1, sharing: {strategy: time-slicing, replicas: 1}}", "gpus: {count: 1, sharing: {strategy: time-slicing, replicas: 2}}",
		"gpus: {count: 1, sharing: {strategy: time-slicing, replicas: 49}}", "gpus: {count: 1, sharing: {strategy: mps, replicas: 48}}", "gpus: {count: 1, sharing: {strategy: mps, replicas: 49}}", "gpus: {count: 1, sharing: {strategy: none, replicas: 2}}",
		"gpus: {count: 1, sharing: {strategy: mig}}", "gpus: {count: 1, sharing: {strategy: none, layouts: [{profiles: {1g.5gb: 1}}]}}", "gpus: {count: 1, sharing: {strategy: mig, layouts: [{profiles: {1g.5gb: 7}}]}}",
		"gpus: {count: 1, sharing: {strategy: mig, layouts: [{profiles: {1g.5gb: 8}}]}}", "gpus: {count: 1, sharing: {strategy: mig, layouts: [{profiles: {1g.5gb: 0}}]}}", "gpus: {count: 1, sharing: {strategy: mig, layouts: [{profiles: {3g.20gb: 2, 1g.5gb: 1}}]}}",
		"gpus: {count: 1, sharing: {strategy: mig, layouts: [{profiles: {3g.20gb: 2, 1g.5gb: 2}}]}}", "gpus: {count: 2, sharing: {strategy: mig, layouts: [{gpus: [0], profiles: {1g.5gb: 7}}, {gpus: [1], profiles: {7g.40gb: 1}}]}}",
		"gpus: {count: 2, sharing: {strategy: mig, layouts: [{profiles: {1g.5gb: 7}}, {gpus: [1], profiles: {7g.40gb: 1}}]}}", "gpus: {count: 2, sharing: {strategy: mig, layouts: [{gpus: [0, 15, 16], profiles: {1g.5gb: 7}}]}}",
		"gpus: {count: 2, sharing: {strategy: mig, layouts: [{gpus: [0, -1, 0], profiles: {1g.5gb: 7}}]}}", "startup: {order: 1}", "tags: [a, b c]", "cpu: host", "cpu: 'a b'", "taints: []",
	}
}

func someDisks(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("d%d: {size: 1GiB}", i)
	}
	return strings.Join(all, ", ")
}

func fileEdges() []string {
	return []string{
		"k3s: {podCIDR: 10.42.0.0/23}", "k3s: {podCIDR: 10.42.0.0/24}", "k3s: {podCIDR: 10.42.0.0/25}", "k3s: {podCIDR: 10.42.0.1/16}", "k3s: {podCIDR: 10.0.0.0/16}", "k3s: {serviceCIDR: 10.42.0.0/24}", "k3s: {serviceCIDR: 10.43.0.1/16}", "k3s: {serviceCIDR: 10.0.0.0/25}",
		"k3s: {vip: 10.0.0.254}", "k3s: {vip: 10.0.0.255}", "k3s: {vip: 10.0.0.0}", "k3s: {vip: 10.0.0.1}", "k3s: {vip: 10.0.0.11}", "k3s: {vip: 10.0.1.1}", "k3s: {vipInterface: eth0}", "k3s: {vip: 10.0.0.100, vipInterface: eth0}", "k3s: {vipInterface: a b, vip: 10.0.0.100}",
		"k3s: {version: v1.34.1+k3s1}", "k3s: {version: v1.33.9+k3s1}", "k3s: {version: 1.35.1+k3s1}", "k3s: {version: v1.35.1-k3s1}", "k3s: {version: 1.35.1}", "k3s: {version: stable}", "k3s: {snapshots: {retention: 1}}", "k3s: {snapshots: {retention: 0}}", "k3s: {snapshots: {retention: 10001}}",
		"k3s: {snapshots: {s3: {bucket: b}}}", "k3s: {snapshots: {s3: {accessKey: env:A, secretKey: env:B}}}", "k3s: {registries: {docker.io: {username: a}}}", "k3s: {registries: {'docker.io:65535': {}, 'docker.io:65536': {}, '*': {}}}", "k3s: {tlsSANs: [a_b, k3s.lab]}", "k3s: {disable: [runtimes]}", "k3s: {disable: [servicelb, local-storage]}",
		"k3s: {disable: [servicelb]}\nloadBalancer: {kind: servicelb}", "loadBalancer: {kind: servicelb, addresses: [10.0.0.200-10.0.0.209]}", "loadBalancer: {kind: servicelb, reserved: {ingress: 10.0.0.200}}", "loadBalancer: {kind: metallb}", "loadBalancer: {}", "loadBalancer: {kind: cilium, addresses: [10.0.0.200-10.0.0.209]}",
		"loadBalancer: {addresses: [10.0.0.200-10.0.0.209], reserved: {ingress: 10.0.0.209, a/b: 10.0.0.210, c: 10.0.0.201}}", "loadBalancer: {addresses: [10.0.0.200-10.0.0.209], reserved: {a/b: 10.0.0.200, a/c: 10.0.0.200}}", "k3s: {cni: cilium}\nloadBalancer: {kind: metallb, addresses: [10.0.0.200-10.0.0.209]}",
		"k3s: {cni: cilium}\nloadBalancer: {addresses: [10.0.0.200-10.0.0.209]}", "k3s: {cni: cilium, flannelBackend: none}", "k3s: {cni: cilium, flannelBackend: vxlan}", "k3s: {cni: flannel, flannelBackend: none}", "k3s: {cni: flannel}", "k3s: {cni: cilium, server: {disable-kube-proxy: false}}", "k3s: {cni: cilium, server: {disable-kube-proxy: true}}",
		"ingress: {kind: none, class: x}", "ingress: {by: cilium}", "ingress: {kind: gateway, by: cilium}", "k3s: {cni: cilium}\ningress: {kind: gateway, by: cilium}",
		"k3s: {cni: cilium, version: v1.36.1+k3s1}\nloadBalancer: {addresses: [10.0.0.200-10.0.0.209]}\ningress: {kind: gateway, by: cilium, class: mine}",
		"k3s: {cni: cilium, version: v1.36.1+k3s1, disable: [traefik]}\nloadBalancer: {addresses: [10.0.0.200-10.0.0.209]}\ningress: {kind: gateway, by: cilium}",
		"k3s: {cni: cilium}\nloadBalancer: {kind: metallb, addresses: [10.0.0.200-10.0.0.209], reserved: {ingress: 10.0.0.200}}\ningress: {kind: gateway, by: cilium}",
		"ingress: none", "ingress: {kind: none}\nloadBalancer: {addresses: [10.0.0.200-10.0.0.209], reserved: {ingress: 10.0.0.200}}", "k3s: {disable: [traefik]}\ningress: traefik", "k3s: {disable: [traefik]}\ningress: none", "k3s: {disable: [traefik]}", "ingress: {class: A_b}",
		"tls: {}", "tls: {email: a@b.c}", "tls: {email: a@b}", "tls: {source: acme}", "tls: {server: https://a/b}", "tls: {source: self-signed, email: a@b.c}", "tls: {source: ca}", "tls: {secret: a/b}", "tls: {secret: b}", "tls: {secret: a/B_}", "tls: {secret: A_/b}", "tls: {secret: a/b, issuer: x}", "tls: {issuer: A_b}",
		"rancher: {hostname: r.lab.example, replicas: 1}", "rancher: {hostname: r.lab.example, replicas: 0}", "rancher: {hostname: r.lab.example, replicas: 10}", "rancher: {}", "rancher: {hostname: 10.0.0.5}", "rancher: {hostname: R.lab}", "rancher: {hostname: r.lab.example, version: 2.1}",
		"monitoring: {retention: 1h}", "monitoring: {retention: 59m}", "monitoring: {size: 1GiB}", "monitoring: {size: 1023MiB}", "monitoring: {hostname: 10.0.0.5}", "k3s: {disable: [local-storage]}\nmonitoring: {}", "k3s: {disable: [local-storage]}",
		"storage: {default: local-path}", "k3s: {disable: [local-storage]}\nstorage: {default: local-path}", "storage: {default: mine, existing: [mine]}", "storage: {default: mine, existing: [other]}", "storage: {nfs: 'srv:/a', longhorn: {}}", "storage: {nfs: 'srv:/a', longhorn: {}, default: nfs}", "storage: {nfs: 'srv:/a'}", "storage: {nfs: {server: 'srv:/a', class: local-path}}",
		"storage: {nfs: {server: 'srv:/a', class: A_}}", "storage: {nfs: {server: 'srv:/a', class: x}, existing: [x]}", "storage: {nfs: {server: 'srv:/a', export: /a}}", "storage: {nfs: {server: 'srv:/a', export: /b}}", "storage: {nfs: {server: srv}}", "storage: {nfs: {export: /a}}", "storage: {nfs: {server: 'a b:/a'}}", "storage: {nfs: 'srv:/a:b'}", "storage: {nfs: 'srv:/'}",
		"storage: {nfs: {server: 'srv:/a', mountOptions: [a b]}}", "storage: {nfs: {server: 'srv:/a', shares: {x: /x, Y_: /y, z: {}}}}", "storage: {nfs: {server: 'srv:/a', shares: {x: 'x'}}}", "storage: {nfs: {server: 'srv:/a', classes: {x: /x, y: 'nas:/y'}}}\nhub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}, home: {class: y}}", "storage: {nfs: {server: 'srv:/a', classes: {nfs: /x, B_: {}, local-path: x, c: 'a b:/c', d: {export: /d, server: 'd/d'}}}}", "storage: {nfs: {server: 'srv:/a', classes: {x: {export: /x, mountOptions: [a b]}}}, existing: [x]}", "storage: {nfs: '10.42.0.5:/a'}", "storage: {nfs: '10.43.0.5:/a'}", "k3s: {vip: 10.0.0.100}\nstorage: {nfs: '10.0.0.100:/a'}", "storage: {nfs: '[fd00::1]:/a'}",
		"storage: {nfs: {vm: {address: 10.0.0.30, size: 1GiB}}}", "storage: {nfs: {vm: {address: 10.0.0.30, size: 1023MiB}}}", "storage: {nfs: {vm: {size: 10GiB}}}", "storage: {nfs: {vm: {address: 10.0.0.21, size: 10GiB}}}", "storage: {nfs: {vm: {address: 10.0.0.1, size: 10GiB}}}", "storage: {nfs: {vm: {address: 10.0.0.0, size: 10GiB}}}", "storage: {nfs: {vm: {address: 10.0.0.30, size: 10GiB, memory: 512MiB}}}",
		"storage: {nfs: {vm: {address: 10.0.0.30, size: 10GiB, memory: 511MiB}}}", "storage: {nfs: {vm: {address: 10.0.0.30, size: 10GiB, cores: 0}}}", "storage: {nfs: {vm: {address: 10.0.0.30, size: 10GiB, cores: 1025}}}", "storage: {nfs: {vm: {address: 10.0.0.30, size: 10GiB, name: wk1}}}", "storage: {nfs: {vm: {address: 10.0.0.30, size: 10GiB, name: A_}}}", "storage: {nfs: {vm: {address: 10.0.0.30, size: 10GiB, host: auto}}}",
		"storage: {nfs: {vm: {address: 10.0.0.30, size: 10GiB}, export: /srv}}", "storage: {nfs: {vm: {address: 10.0.0.30, size: 10GiB}, classes: {x: /exports, y: 'nas:/y'}}}", "storage: {nfs: {vm: {address: 10.0.0.30, size: 10GiB}, export: /export/a, shares: {x: /exports}}}", "storage: {nfs: {vm: {address: 10.0.0.30, size: 10GiB, allow: [10.0.0.0/28]}}}", "storage: {nfs: {server: srv, vm: {address: 10.0.0.30, size: 10GiB}}}",
		"storage: {scratch: true}", "storage: {scratch: {path: relative}}", "storage: {longhorn: {replicas: 2}}", "storage: {longhorn: {replicas: 3}}", "storage: {longhorn: {replicas: 0}}", "storage: {longhorn: {path: /}}", "storage: {cephfs: {}}",
		"storage: {cephfs: {clusterID: 01234567-0123-0123-0123-0123456789ab, fsName: a, user: b, key: env:K, monitors: ['10.0.0.41:6789', '10.0.0.41:65535', '[fd00::1]:3300']}}", "storage: {cephfs: {clusterID: x, fsName: a, user: client.b, key: env:K, monitors: ['10.0.0.41', '10.0.0.41:0', '10.0.0.41:65536']}}",
		"fleet: {}", "fleet: {polling: 5s}", "fleet: {polling: 4s}", "fleet: {standalone: false}", "rancher: {hostname: r.lab.example}\nfleet: {standalone: true}", "rancher: {hostname: r.lab.example}\nfleet: {}", "fleet: {repo: 'http://g.example/a'}", "fleet: {repo: 'https://g.example/a', username: a}", "fleet: {repo: 'https://g.example/a', sshKey: env:K}",
		"fleet: {repo: 'ssh://git@g.example/a.git', username: a, password: env:P}", "fleet: {repo: 'ssh://git@g.example/a.git'}", "fleet: {repo: 'ssh://git@g.example/a.git', sshKey: env:K}", "fleet: {repo: 'ssh://git:p@g.example/a.git', sshKey: env:K}", "fleet: {repo: 'ssh://g.example', sshKey: env:K}", "fleet: {repo: 'git@g.example:a.git', sshKey: env:K}",
		"fleet: {branch: a..b}", "fleet: {branch: a/}", "fleet: {branch: a.lock}", "fleet: {path: .}", "fleet: {path: /a}", "fleet: {path: ..}", "fleet: {path: ../a}", "fleet: {path: a/../b}", "fleet: {path: a, extra: [a/b, b, b, '.', c/]}", "fleet: {author: me}", "fleet: {author: 'Me <me@lab.example>'}",
		"image: {url: 'https://x/a.qcow2'}", "image: {url: 'https://x/a.qcow2', template: a}", "image: {sha256: x}", "image: {url: 'ftp://x/a.qcow2'}", "image: {url: 'https://x/debian-13.qcow2'}", "image: {storage: a, seedStorage: 1a}", "nvidia: {stack: none, sharing: {strategy: mps, replicas: 2}}", "nvidia: {driver: {mode: operator}}", "nvidia: {stack: operator, driver: {mode: operator}}",
		"image: {secureBoot: true}\nnvidia: {driver: {mode: dkms}}", "nvidia: {driver: {mode: dkms}}", "nvidia: {driver: {branch: '470'}}", "nvidia: {driver: {branch: '1'}}", "nvidia: {driver: {branch: lts}}", "nvidia: {driver: {branch: production}}", "nvidia: {driver: {branch: production, flavour: proprietary}}", "image: debian-13\nnvidia: {driver: {mode: dkms, branch: lts}}", "nvidia: {driver: {flavour: open}}", "image: debian-13", "image: debian-13\nnvidia: {driver: {mode: dkms}}", "image: debian-13\nnvidia: {stack: none}",
		"k3s: {airgap: /etc/passwd}", "k3s: {airgap: /nothing/there}", "ssh: {privateKey: /etc}",
		"storage: {nfs: {server: 'srv:/a', shares: {x: /x}}}\nhub: {hostname: hub.lab.example, auth: {allowAll: true, oidc: {issuer: 'https://i.example', clientID: c, clientSecret: env:S}}, shared: {x: {groups: [g]}}}",
		"storage: {nfs: {server: 'srv:/a', shares: {x: {export: /x, readOnly: true}}}}\nhub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}, shared: {x: {groups: [g], readOnly: false}, y: {}}}",
		"storage: {nfs: {server: 'srv:/a', shares: {x: /x}}}\nhub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}, shared: {x: {groups: [g], path: /home/jovyan}}}",
		"nodes: {x: {pool: wk, address: 10.0.0.30, taints: []}}\nhub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}, profiles: {a: {cpu: 100}}}", "ssh: {user: root}", "ssh: {user: A}", "ssh: {agent: true}", "ssh: {proxy: 'socks5://127.0.0.1:1080'}", "ssh: {proxy: 'http://127.0.0.1:1080'}", "ssh: {proxy: 'socks5://a:b@127.0.0.1:1080'}", "ssh: {publicKeys: ['']}", "ssh: {publicKeys: [a b]}",
		"guest: {files: [{path: /etc/motd, content: ''}]}", "guest: {files: [{path: /etc/motd}]}", "guest: {files: [{content: a}]}", "guest: {files: [{path: etc/motd, content: a}]}", "guest: {files: [{path: /etc/rancher/k3s/x, content: a}]}", "guest: {files: [{path: /a, content: a, source: b}]}", "guest: {files: [{path: /a, content: a, owner: a:b}]}", "guest: {files: [{path: /a, content: a, owner: 'A:'}]}",
		"guest: {sysctls: {a.b: '1'}}", "guest: {sysctls: {a.b: ''}}", "guest: {sysctls: {a b: '1'}}", "guest: {packages: [a, A, b=1.0-1]}", "guest: {kernelModules: [a_b, 'a b']}", "guest: {timezone: Europe/Vienna}", "guest: {timezone: x y}", "guest: {apt: {mirror: 'ftp://x'}}",
		"charts: {offline: true}", "charts: {versions: {jupyterhub: 4.1.0, cilium: v1.2.3-rc.1+k3s1, metallb: '4'}}", "charts: {versions: {nobody: 1.2.3}}", "charts: {via: {jupyterhub: fleet, cilium: x}}", "charts: {digests: {cilium: 'sha256:x'}}", "charts: {values: {cilium: {a: [{password: x}]}}}", "charts: {values: {cilium: {a: {adminPassword: ''}, existingSecret: b}}}",
		"nodes: {x: {pool: wk, address: 10.0.0.30}}", "nodes: {x: {pool: none, address: 10.0.0.30}}", "nodes: {wk1: {pool: cp}}", "nodes: {wk1: {pool: wk, cores: 2}}", "nodes: {x: {external: teacher@10.0.0.40}}", "nodes: {x: {external: teacher@host}}", "nodes: {x: {external: 'teacher@10.0.0.40', vmid: 5, address: 10.0.0.40}}", "nodes: {x: {external: 'teacher@10.0.0.40', adopt: true}}", "nodes: {x: {external: 'teacher@10.0.0.40', gpus: {pci: ['01:00']}}}", "nodes: {x: {role: server, memory: 2GiB, address: 10.0.0.12}}", "nodes: {x: {role: server, memory: 2047MiB, address: 10.0.0.12}}",
		"nodes: {x: {address: 10.0.0.30, vmid: 100}}", "nodes: {x: {address: 10.0.0.30, vmid: 99}}", "nodes: {x: {address: 10.0.0.30, vmid: 999999999}}", "nodes: {x: {address: 10.0.0.30, vmid: 1000000000}}",
		"monitoring: {retention: 2h}", "monitoring: {retention: 119m}",
		"nodes: {x: {address: 10.0.0.11}}", "nodes: {wk1: {cores: 0}, x: {address: 10.0.0.30, cores: 0}}",
		"k3s: {clusterDomain: " + strings.Repeat("a.", 126) + "a}", "k3s: {clusterDomain: " + strings.Repeat("a.", 126) + "aa}", "nodes: {x: {role: server, address: 10.0.0.30}}", "nodes: {x: {role: server, address: 10.0.0.30}, y: {role: server, address: 10.0.0.31}}",
		"nodes: {x: {role: server, external: teacher@10.0.0.40}, y: {role: server, address: 10.0.0.31}}\nk3s: {vip: 10.0.0.1}", "nodes: {a: {external: teacher@10.0.0.40}, b: {address: 192.168.7.5, network: {prefix: 192.168.7.0/24, gateway: 192.168.7.1}}}\nk3s: {podCIDR: 192.168.0.0/16}",
		"nvidia: {driver: {branch: '470', flavour: open}}", "nvidia: {driver: {branch: '1', flavour: proprietary}}", "nvidia: {driver: {branch: '470', flavour: proprietary}}", "k3s: {version: v1.34.1+k3s1}\nrancher: {hostname: r.lab.example, version: 2.9.0}", "k3s: {version: v1.99.1+k3s1}\nrancher: {hostname: r.lab.example}",
		"k3s: {version: !!str v1.34.1+k3s1}", "nodes: !!map {x: {address: 10.0.0.30, cores: !!int 4, onboot: !!bool true}}", "guest: {packages: !!seq [nfs]}", "nodes: {x: {address: 10.0.0.30, cores: !!float 4}}", "guest: {packages: !mine [nfs]}", "guest: {packages: !!str [a]}",
		"guest: {packages: [\"a\":b]}", "guest: {packages: [a:'b']}", "guest: {packages: [a:b]}", "guest: {sysctls: {\"a\\e\": '1', b: ''}}", "k3s: {registries: {\"a\\e\": {}, docker.io: {username: a}}}", "k3s: {server: {token: x, tls-san-security: true, nonsense: 1}}", "k3s: {agent: {server: x, nonsense: 1}}",
		"k3s: {podCIDR: 172.20.0.0/16, serviceCIDR: 10.32.0.0/12}", "k3s: {podCIDR: 172.20.0.0/16, serviceCIDR: 10.32.0.0/11}", "k3s: {serviceCIDR: 10.43.0.0/28}", "k3s: {serviceCIDR: 10.43.0.0/29}", "loadBalancer: {addresses: [10.0.0.200-10.0.0.209], reserved: {A_/b: 10.0.0.200, a/B_: 10.0.0.201, a: 10.0.0.202}}",
		"k3s: {version: v1.99.1+k3s1}\nrancher: {hostname: r.lab.example, version: 2.15.2}", "k3s: {version: v1.99.1+k3s1}\ncharts: {versions: {rancher: 2.15.2}}\nrancher: {hostname: r.lab.example}", "rancher: {hostname: r.lab.example, version: 2.9.0}\nhub: {hostname: hub.lab.example, version: 4.3.2, auth: {kind: native, admins: [teacher]}}",
		"hub: {hostname: hub.lab.example, version: 9.9.9, auth: {kind: native, admins: [teacher]}}\nrancher: {hostname: r.lab.example, version: 2.15.2}", "rancher: {hostname: a.lab.example}\nhub: {hostname: a.lab.example, auth: {kind: native, admins: [teacher]}}\nmonitoring: {hostname: a.lab.example}", "nvidia: {driver: {flavour: proprietary}}",
		"ingress: none\nhub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}}", "k3s: {disable: [servicelb]}\ningress: none\nhub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}}", "ingress: none\nrancher: {hostname: r.lab.example}",
		"k3s: {disable: [servicelb]}\nloadBalancer: {addresses: [10.0.0.200-10.0.0.209]}\ningress: none\nhub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}}", "nodes: {\"a\\e\": {address: 10.0.0.30}, b: {pool: none, address: 10.0.0.31}}", "guest: {disks: {}}\nnodes: {wk1: {disks: {a: null, b: {size: 0}}}}",
		"patience: 0", "patience: 1", "patience: 100", "patience: 1000", "patience: -1", "fleet: {repo: 'ssh://git@g.example/a.git', sshKey: env:K, password: env:P}", "fleet: {repo: 'https://g.example/a', password: env:P}", "fleet: {repo: 'https://g.example/a', knownHosts: a}",
		"nodes: {x: {address: 10.0.0.30, gpus: {pci: ['01:00', '01:00', '02:00', '02:00']}}}", "nodes: {x: {address: 10.0.0.30, gpus: {pci: ['01:00', '02:00']}}, y: {address: 10.0.0.31, gpus: {pci: ['01:00', '02:00']}}}", "storage: {longhorn: {replicas: 1}}\nhub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}, profiles: {a: {cpu: 3}}}",
		"nodes: {wk1: {cores: 8}}\nstorage: {longhorn: {replicas: 1}}\nhub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}, profiles: {a: {cpu: 7}}}",
		"nodes: {x: {address: 10.0.0.30, gpus: 1}}\nhub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}, profiles: {a: {}}}", "nodes: {x: {address: 10.0.0.30, taints: ['a=b:PreferNoSchedule']}}\nhub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}, profiles: {a: {}}}",
		"nodes: {x: {address: 10.0.0.30, pool: wk, gpus: 2}}\nhub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}, profiles: {a: {gpus: 2}}}", "image: debian-13\nnodes: {wk1: {gpus: 0}, x: {external: teacher@10.0.0.40, gpus: 1}}", "image: debian-13\nnodes: {wk1: {adopt: true}}", "nodes: {x: {address: 10.0.0.12, mac: 'BC:24:11:00:00:01'}, y: {address: 10.0.0.13, mac: 'bc:24:11:00:00:01'}}", "nodes: {x: {address: 10.0.0.12, vmid: 500}, y: {address: 10.0.0.13, vmid: 500}}", "nodes: {x: {}}", "nodes: {x: {network: {dhcp: true}}}", "nodes: {x: {role: server, network: {dhcp: true}}}", "nodes: {x: {address: 10.9.0.2, network: {prefix: 10.9.0.0/30, gateway: 10.9.0.1}}}", "nodes: {x: {address: 10.9.0.1, network: {prefix: 10.9.0.0/31, gateway: 10.9.0.0}}}", "nodes: {lab-template-x: {address: 10.0.0.12}}",
	}
}

func hubEdges() []string {
	return []string{
		"cull: {idle: 5m}", "cull: {idle: 299s}", "cull: {idle: 10m}", "cull: {idle: 9m}", "cull: {idle: 9m, every: 5m}", "cull: {idle: 5m, every: 6m}", "cull: {every: 30s}", "cull: {every: 29s}", "cull: {maxAge: 1h}", "cull: {maxAge: 59m}", "cull: {enabled: false, idle: 1h}", "cull: false", "cull: {exempt: [Teacher]}",
		"database: {size: 100MiB}", "database: {size: 99MiB}", "database: {kind: postgres}", "database: {url: env:U}", "database: {url: env:U, size: 1GiB}", "database: {kind: sqlite, url: env:U}",
		"home: {size: 100MiB}", "home: {size: 99MiB}", "home: {claim: homes}", "home: {claim: homes, size: 1GiB}", "home: {claim: homes, claimTemplate: 'a-{username}'}", "home: {claim: A_}", "home: {claimTemplate: a}", "home: {claimTemplate: 'a-{user_server}'}", "home: {claimTemplate: 'a-{userid}'}", "home: {subPath: /a}", "home: {subPath: a/../b}", "home: {subPath: 'a..b'}", "home: {path: /tmp}", "home: {path: home}",
		"scratch: {class: x}", "scratch: {}", "scratch: {class: x, size: 100MiB}", "scratch: {class: x, size: 99MiB}", "scratch: {class: x, path: /home/jovyan}", "scratch: {class: x, path: /etc}", "reach: [10.9.0.0/16]", "reach: [10.9.0.1/16]", "isolate: false, reach: [10.9.0.0/16]", "isolate: false", "quota: {gpus: 1}", "quota: {gpus: 0}", "quota: {gpus: 100001}",
		"namespace: default", "namespace: kube-x", "namespace: A_", "profiles: {a: {gpus: 1}}", "profiles: {a: {gpus: 0}}", "profiles: {a: {gpus: 17}}", "profiles: {a: {gpus: 2}}", "profiles: {a: {gpus: -1}}", "profiles: {a: {cpu: {limit: 2, guarantee: 2}}}", "profiles: {a: {cpu: {limit: 2, guarantee: 2.5}}}", "profiles: {a: {cpu: {guarantee: 2}}}", "profiles: {a: {cpu: 0}}",
		"profiles: {a: {memory: 256MiB}}", "profiles: {a: {memory: 255MiB}}", "profiles: {a: {memory: {limit: 2GiB, guarantee: 2GiB}}}", "profiles: {a: {memory: {limit: 2GiB, guarantee: 3GiB}}}", "profiles: {a: {memory: {guarantee: 3GiB}}}", "profiles: {a: {memory: 1GiB, shm: 1GiB}}", "profiles: {a: {memory: 1GiB, shm: 1025MiB}}", "profiles: {a: {shm: 100GiB}}",
		"profiles: {a: {gpus: 1, gpuMemory: 1GiB}}", "profiles: {a: {gpus: 2, gpuMemory: 1GiB}}", "profiles: {a: {gpuMemory: 1GiB}}", "profiles: {a: {memory: 61GiB}}", "profiles: {a: {memory: 62GiB}}", "profiles: {a: {memory: 200GiB}}", "profiles: {a: {cpu: 15}}", "profiles: {a: {cpu: 16}}", "profiles: {a: {pool: cp, gpus: 1}}", "profiles: {a: {pool: wk}}", "profiles: {a: {pool: none}}",
		"profiles: {a: {image: x}}", "profiles: {a: {image: 'x:latest'}}", "profiles: {a: {image: 'x:1'}}", "profiles: {a: {image: 'X:1'}}", "profiles: {a: {image: 'h:5000/x'}}", "profiles: {a: {runtimeClass: A_}}", "profiles: {a: {gpus: 1, runtimeClass: runc}}", "profiles: {a: {runtimeClass: runc}}", "profiles: {a: {gpus: 1, runtimeClass: nvidia-cdi}}", "profiles: {a: {defaultURL: lab}}", "profiles: {a: {defaultURL: /lab}}",
		"profiles: {a: {env: {A: b, 1A: b, API_KEY: '', TOKEN: x}}}", "profiles: {A_: {}}", "profiles: {" + strings.Repeat("a", 40) + ": {}}", "profiles: {" + strings.Repeat("a", 41) + ": {}}", "profiles: {a: {default: true}, b: {default: true}}", "profiles: {a: {}, b: {default: true}, c: {default: true}, d: {default: true}}", "profiles: {a: {groups: [x]}}", "profiles: {a: {groups: [x]}, b: {}}", "shared: {x: {}}",
		"auth: {}", "auth: {kind: dummy}", "auth: {kind: native, users: [teacher]}", "auth: {kind: native, users: [teacher, teacher]}", "auth: {kind: native, allowAll: false}", "auth: {kind: native, allowAll: false, admins: [teacher]}", "auth: {kind: native, admins: [teacher]}", "auth: {kind: native, allowAll: true, users: [teacher], admins: [teacher]}", "auth: {kind: native, allowAll: true, admins: [teacher]}", "auth: {kind: native, native: {openSignup: true}}", "auth: {kind: native, ldap: {server: 'ldaps://x'}}",
		"auth: {kind: oidc}", "auth: {oidc: {issuer: 'https://i.example', clientID: c, clientSecret: env:S}}", "auth: {allowAll: true, oidc: {issuer: 'https://i.example', clientID: c, clientSecret: env:S}}", "auth: {oidc: {issuer: 'https://i.example', clientID: c, clientSecret: env:S, allowedGroups: [a]}}", "auth: {oidc: {issuer: 'https://i.example', clientID: c, clientSecret: env:S, adminGroups: [a]}}",
		"auth: {allowAll: true, oidc: {issuer: 'https://i.example/.well-known/openid-configuration', clientID: c, clientSecret: env:S, scopes: [email]}}", "auth: {allowAll: true, oidc: {issuer: 'https://i.example', clientID: c, clientSecret: env:S, tokenURL: 'http://t.example'}}", "auth: {allowAll: true, oidc: {issuer: 'https://i.example', clientID: c, clientSecret: env:S}}, profiles: {a: {groups: [x]}, b: {}}",
		"auth: {ldap: {server: 'ldaps://x'}}", "auth: {allowAll: true, ldap: {server: 'ldap://x', bindDN: ['uid={username},dc=x']}}", "auth: {allowAll: true, ldap: {server: 'ldaps://x', bindDN: ['uid=teacher,dc=x', '{username}']}}", "auth: {allowAll: true, ldap: {server: 'ldaps://x', lookupDN: true}}", "auth: {allowAll: true, ldap: {server: 'ldaps://x', lookupDN: true, searchBase: 'dc=x', searchUser: a}}",
		"auth: {allowAll: true, ldap: {server: 'ldaps://x', bindDN: ['uid={username},dc=x'], searchUser: a, searchPassword: env:P}}", "auth: {ldap: {server: 'ldaps://x', bindDN: ['uid={username},dc=x'], groups: ['cn=a']}}", "auth: {allowAll: true, ldap: {server: 'ldaps://x', bindDN: ['uid={username},dc=x'], groups: ['cn=a']}}",
		"auth: {kind: github}", "auth: {allowAll: true, github: {clientID: c, clientSecret: env:S}}", "auth: {github: {clientID: c, clientSecret: env:S, organizations: [a, 'a:b', a b]}}", "auth: {github: {clientID: c, clientSecret: env:S}}", "auth: {allowAll: true, github: {clientID: c, clientSecret: env:S, organizations: [a]}}", "auth: {kind: nobody}",
	}
}

func proxmoxEdges() []string {
	with := func(endpoint string) string { return "endpoint: '" + endpoint + "', token: a@pve!b, secret: env:S" }
	return []string{
		with("pve1"), with("https://[::1"), with("https://a b"), with("https://:8006"), with("https://pve1:x"), with("pve1:8006"), with("https://pve1:65535/"), with("https://pve1:65536"), with("https://pve1:0"), with("http://pve1"), with("https://pve1/api2/json"), with("https://pve1/x"), with("https://pve1?x=1"), with("https://pve1#x"), with("fd00::1"), with("a@pve1"), with("a_b"), with("LAB"), "endpoint: ''",
		"endpoint: pve1", "endpoint: pve1, secret: env:S", "endpoint: pve1, token: a@pve!b", "endpoint: pve1, token: a@pve!b, secret: env:S, password: env:P", "endpoint: pve1, token: a@pve!b, secret: env:S, user: root@pam", "endpoint: pve1, token: a@pve!b, secret: env:S, user: root",
		"endpoint: pve1, token: a@pve!b, secret: env:S, insecure: true", "endpoint: pve1, token: a@pve!b, secret: env:S, insecure: true, fingerprint: '" + strings.Repeat("ab", 32) + "'", "endpoint: pve1, token: a@pve!b, secret: env:S, fingerprint: '" + strings.Repeat("ab", 32) + "'", "endpoint: pve1, token: a@pve!b, secret: env:S, fingerprint: '" + strings.Repeat("ab", 31) + "'",
		"endpoint: pve1, token: a@pve!b, secret: env:S, fingerprint: '" + strings.Repeat("ab", 20) + "'", "endpoint: pve1, token: a@pve!b, secret: env:S, fingerprint: xyz", "endpoint: lab, user: root@pam", "endpoint: lab, hosts: {pve1: {}}, host: pve2", "endpoint: lab, hosts: {A_: {}}, host: A_", "endpoint: lab, host: auto", "endpoint: lab, host: auto, hosts: {pve1: {}, pve2: {}}",
		"endpoint: lab, hosts: {pve1: {memory: 24GiB}}", "endpoint: lab, hosts: {pve1: {memory: 23GiB}}", "endpoint: lab, hosts: {pve1: {cores: 8}}", "endpoint: lab, hosts: {pve1: {cores: 7}}", "endpoint: lab, hosts: {pve1: {cores: 6}}", "endpoint: lab, hosts: {pve1: {cores: 5}}", "endpoint: lab, hosts: {pve1: {gpus: 0}}", "endpoint: lab, hosts: {pve1: {gpus: -1}}", "endpoint: lab, hosts: {pve1: {storage: {vmdata: 160GiB}}}", "endpoint: lab, hosts: {pve1: {storage: {vmdata: 159GiB}}}", "endpoint: lab, hosts: {pve1: {storage: {vmdata: 159GiB, other: 1GiB}}}",
	}
}

// Of the charts, those count whose parts the file asks for.
func TestPartsThatAFileAsksFor(t *testing.T) {
	base := func(more string) []string {
		var on []string
		for _, part := range platform.Parts(parsed(t, fmt.Sprintf(edgeBase, "", ", gpus: 1", more))) {
			if info := part.Info(); info.On && info.Chart.Chart != "" {
				on = append(on, info.Name)
			}
		}
		return on
	}
	none := base("")
	for more, want := range map[string]string{
		"storage: {nfs: 'srv:/a'}": "nfs", "storage: {longhorn: {replicas: 2}}": "longhorn", "monitoring: {gpus: false}": "monitoring",
		"storage: {cephfs: {clusterID: 01234567-0123-0123-0123-0123456789ab, fsName: a, user: b, key: env:K, monitors: ['10.0.0.41:6789']}}": "cephfs",
		"tls: {}": "cert-manager", "fleet: {standalone: true}": "fleet-crd fleet", "loadBalancer: {kind: metallb, addresses: [10.0.0.200-10.0.0.209]}": "metallb",
		"k3s: {cni: cilium}": "cilium", "hub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}}": "jupyterhub",
	} {
		assert.Equal(t, want, strings.Join(slices.DeleteFunc(base(more), func(p string) bool { return slices.Contains(none, p) }), " "), more)
	}
}
