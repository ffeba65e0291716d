package report

import (
	"fmt"
	"time"
)

// at is when the pages of the tests are written.
func at() time.Time { return time.Date(2026, 11, 23, 20, 5, 0, 0, time.UTC) }

const a100, l40s = "A100 PCIe 40GB", "L40S"

// troubled is a cluster after a run that failed: something of everything.
func troubled() *Page {
	cards := func(model string, n, from int) (out []GPU) {
		for i := range n {
			out = append(out, GPU{Model: model, Address: fmt.Sprintf("0000:%02x:00", from+0x20*i)})
		}
		return out
	}
	notebook := func(user string, n int, ago time.Duration) Holder {
		return Holder{Name: user, Pod: "jupyterhub/jupyter-" + user, Count: n, Since: at().Add(-ago)}
	}
	server := func(i int) Machine {
		return Machine{Name: fmt.Sprintf("cp%d", i), State: Good, Words: "ready", Role: "server", Address: fmt.Sprintf("10.0.0.%d", 10+i), VMID: 100 + i, Version: "v1.36.5+k3s1", Age: "41d"}
	}
	worker := func(i int, state State, words string, gpus []GPU, holders ...Holder) Machine {
		m := Machine{Name: fmt.Sprintf("wk-gpu%d", i), State: state, Words: words, Role: "agent", Address: fmt.Sprintf("10.0.0.%d", 20+i), VMID: 110 + i, Version: "v1.36.5+k3s1", Age: "41d", GPUs: gpus}
		m.Use = Use{Total: len(gpus), Unit: "GPUs", Holders: holders}
		for _, h := range holders {
			m.Use.Used += h.Count
		}
		return m
	}
	lost := worker(4, Bad, "its kubelet has not reported since 19:52:10", cards(a100, 2, 0x41))
	lost.Use = Use{Unit: "GPUs", Unknown: "not known"}
	files := Machine{Name: "ml-nfs", State: Good, Words: "running", Role: "files", Address: "10.0.0.30", VMID: 120}
	p := &Page{
		Cluster: "ml", Command: "cluster:up", Version: "v0.9.0", Time: at(), Failed: true,
		Outcome: "k3s/wk-gpu4, chart/monitoring failed, 2 of 42 steps could not start; what is done stays done: fix it and run it again",
		Facts:   []Fact{{"Kubernetes", "v1.36.5+k3s1"}, {"API", "10.0.0.100"}, {"Driver", "580-server, open"}, {"File", "cluster.yaml"}},
		Links:   []Link{{"notebooks", "https://hub.lab.example"}, {"Grafana", "https://grafana.lab.example"}},
		Problems: []Problem{
			{Where: "wk-gpu4", What: "K3s: k3s-agent.service does not start: the server refuses the node's password: node password rejected, duplicate hostname", Cure: "delete the old password and run cluster:up again: kubectl -n kube-system delete secret wk-gpu4.node-password.k3s"},
			{Where: "monitoring", What: "chart: deployment monitoring/grafana: 2 of 3 pods are ready: container grafana: CrashLoopBackOff"},
			{Where: "wk-gpu3", What: "scratch: class scratch: the pod ended with exit status 1: dd: error writing '/probe/data': No space left on device"},
			{Where: "wk-small1, GPU 0", What: "compute: vectorAdd: CUDA error 719: unspecified launch failure"},
			{Where: "wk-gpu3, GPU 1", What: "memory bandwidth 1214 GB/s is slower than last month: median 1391 GB/s of 10 runs since 2026-11-12 (-13 %), driver 575.57.08 until 2026-11-18", Warning: true},
			{Where: "wk-gpu2, GPU 1", What: "pcie: x8, and the card can use x16: another slot, a riser or a bad contact", Warning: true},
			{Where: "pve2", What: "the storage fast is 91 % full", Cure: "free space, or move disks to another storage", Warning: true},
		},
		Hosts: []Host{
			{Name: "pve1", State: Good, Words: "online", About: "64 cores, 512GiB", Machines: []Machine{
				server(1), server(2), worker(1, Good, "ready", cards(a100, 2, 0x41), notebook("teacher", 1, 3*time.Hour), notebook("student1", 1, 50*time.Minute)),
				worker(2, Good, "ready", cards(a100, 2, 0x81), Holder{Name: "training/llm-finetune-0", Pod: "training/llm-finetune-0", Count: 2, Since: at().Add(-75 * time.Hour)}),
			}, Cards: []GPU{{Model: "RTX A4000", Address: "0000:c1:00", Owner: "104 win11"}, {Model: "RTX A4000", Address: "0000:e1:00"}}},
			{Name: "pve2", State: Good, Words: "online", About: "64 cores, 512GiB", Machines: []Machine{
				server(3), worker(3, Good, "ready", cards(a100, 2, 0x41), notebook("teacher", 1, 20*time.Minute)), lost, files,
			}, Cards: []GPU{{Model: "T4", Address: "0000:c1:00", Problem: "its IOMMU group has another device: 0000:c1:00.1"}}},
			{Name: "pve3", State: Good, Words: "online", About: "32 cores, 256GiB", Machines: []Machine{
				{Name: "wk-small1", State: Waiting, Words: "drained", Role: "agent", Address: "10.0.0.31", VMID: 131, Age: "12d", GPUs: cards(l40s, 1, 0x21),
					Use: Use{Used: 3, Total: 10, Unit: "shares", Holders: []Holder{notebook("student2", 1, 90*time.Second), notebook("student3", 1, 26*time.Hour), notebook("student4", 1, 80*time.Hour)}}},
			}},
		},
		Pools: []Pool{
			{Name: "cp", Role: "server", Ready: 3, Nodes: 3, Cores: "8", Memory: "16GiB", Unit: "GPUs"},
			{Name: "wk-gpu", Role: "agent", Ready: 3, Nodes: 4, Cores: "24", Memory: "128GiB", Model: "8 × " + a100, Used: 5, GPUs: 8, Unit: "GPUs", Taints: "nvidia.com/gpu:NoSchedule"},
			{Name: "wk-small", Role: "agent", Ready: 1, Nodes: 1, Cores: "8", Memory: "64GiB", Model: "1 × " + l40s, Used: 3, GPUs: 10, Unit: "shares", Sharing: "time-slicing, 10 each"},
		},
		Parts: []Part{
			{Name: "nfs", Chart: "csi-driver-nfs", Version: "4.13.4", Via: "direct", State: Good, Words: "ready"},
			{Name: "cert-manager", Chart: "cert-manager", Version: "v1.21.2", Via: "fleet", State: Good, Words: "ready"},
			{Name: "monitoring", Chart: "kube-prometheus-stack", Version: "82.1.0", Via: "direct", State: Bad, Words: "chart: 2 of 3 pods are ready"},
			{Name: "jupyterhub", Chart: "jupyterhub", Version: "4.4.2", Via: "direct", State: Waiting, Words: "waits: after monitoring"},
		},
		Changes: []Change{
			{Where: "wk-gpu1", What: "vm", Fields: []Field{{Path: "memory", Before: "96GiB", After: "128GiB", Note: "needs a restart"}}},
			{Where: "wk-gpu2", What: "vm", Fields: []Field{{Path: "memory", Before: "96GiB", After: "128GiB", Note: "needs a restart"}}},
			{Where: "wk-gpu3", What: "driver", Fields: []Field{{Path: "branch", Before: "575-server", After: "580-server"}, {Path: "module", Before: "575.57.08", After: "580.95.05", Note: "needs a restart"}}},
			{Where: "cert-manager", What: "chart", Fields: []Field{{Path: "version", Before: "v1.20.0", After: "v1.21.2"}}},
		},
		Run: run(),
		Fit: Fit{Pools: []string{"wk-gpu", "wk-small"}, Rows: []FitRow{
			{Profile: "cpu", Cells: []FitCell{{Count: 40}, {Count: 12}}, Total: 52},
			{Profile: "one-gpu", Cells: []FitCell{{Count: 8}, {Why: "it needs a GPU of 40GiB"}}, Total: 6, Limit: "quota of 6 GPUs"},
			{Profile: "shared-gpu", Cells: []FitCell{{Why: "GPUs are not shared"}, {Count: 10}}, Total: 10},
			{Profile: "four-gpus", Cells: []FitCell{{Why: "a node has 2 GPUs"}, {Why: "a node has 1 GPU"}}},
		}},
	}
	p.Results = results()
	return p
}

// results are those of seven GPUs and their machines, with a history of eleven days.
func results() (out []Result) {
	fine := func(names ...string) (checks []Check) {
		for _, name := range names {
			checks = append(checks, Check{Name: name, State: Good})
		}
		return checks
	}
	history := func(name, unit string, value func(day int) float64) Trend {
		t := Trend{Name: name}
		for day := range 11 {
			t.Words = fmt.Sprintf("%.0f %s", value(day), unit)
			t.Past = append(t.Past, PastResult{Time: at().AddDate(0, 0, day-11), Passed: true, Value: value(day), Words: t.Words})
		}
		return t
	}
	for i := range 7 {
		r := Result{Node: fmt.Sprintf("wk-gpu%d", 1+i/2), Index: i % 2, Level: "full", Model: a100, Memory: "40GiB", Driver: "580.95.05", UUID: fmt.Sprintf("GPU-5c8ad2b1-%04d", i), Passed: true, Time: at().Add(-14 * time.Hour)}
		r.Checks = fine("compute", "pcie", "ecc", "clocks")
		bandwidth := history("memory bandwidth", "GB/s", func(day int) float64 {
			if i == 5 && day > 6 {
				return 1214
			}
			return 1390 + float64((i*7+day*5)%11)
		})
		if i == 2 {
			bandwidth.Past[4].Passed = false
		}
		r.Trends, r.Past = []Trend{bandwidth}, bandwidth.Past
		switch i {
		case 3:
			r.Checks[1] = Check{Name: "pcie", State: Waiting, Detail: "x8, and the card can use x16: another slot, a riser or a bad contact"}
		case 5:
			r.Worse, r.Trends[0].Slower = []string{"memory bandwidth 1214 GB/s is slower than last month: median 1391 GB/s of 10 runs since 2026-11-12 (-13 %), driver 575.57.08 until 2026-11-18"}, true
			r.Better = []string{"driver 575.57.08 on 2026-11-18"}
		case 6:
			r.Trends, r.Past, r.Model, r.Passed, r.Detail, r.Note = nil, nil, l40s, false, "vectorAdd: CUDA error 719: unspecified launch failure", "one of 10 shares (time-slicing)"
			r.Node, r.Memory, r.Index = "wk-small1", "48GiB", 0
			r.Checks = append([]Check{{Name: "compute", State: Bad, Detail: r.Detail}}, fine("pcie", "ecc", "clocks")...)
		}
		out = append(out, r)
	}
	for i, node := range []string{"wk-gpu1", "wk-gpu2", "wk-gpu3", "wk-small1"} {
		r := Result{Node: node, Index: Whole, Level: "full", Passed: true, Time: out[0].Time, Checks: fine("xid", "refuse", "keep", "scratch", "home")}
		r.Trends = []Trend{
			history("scratch write", "MB/s", func(day int) float64 { return 2100 + float64((i*40+day*70)%300) }),
			history("home write", "MB/s", func(day int) float64 { return 108 + float64((i+day*3)%8) }),
		}
		switch i {
		case 1:
			r.Checks[2] = Check{Name: "keep", State: Off, Detail: "not tried, since a failure would take the GPUs of others: training/llm-finetune-0 holds 2 on wk-gpu2"}
		case 2:
			r.Passed, r.Detail, r.Trends = false, "scratch: class scratch: No space left on device", r.Trends[1:]
			r.Checks[3] = Check{Name: "scratch", State: Bad, Detail: "class scratch: the pod ended with exit status 1: dd: error writing '/probe/data': No space left on device"}
		}
		out = append(out, r)
	}
	return out
}

// run is a run of the troubled cluster.
func run() *Run {
	r := &Run{Started: at().Add(-400 * time.Second)}
	ends := map[string]time.Time{}
	add := func(what, lane, end string, took float64, needs ...string) {
		s := Step{Name: what + "/" + lane, Lane: lane, What: what, End: end, Started: r.Started}
		for _, need := range needs {
			s.Needs = append(s.Needs, need)
			if ends[need].After(s.Started) {
				s.Started = ends[need]
			}
		}
		s.Ended = s.Started.Add(time.Duration(took * float64(time.Second)))
		ends[s.Name] = s.Ended
		if r.Ended.Before(s.Ended) {
			r.Ended = s.Ended
		}
		r.Steps = append(r.Steps, s)
	}
	add("hosts", "cluster", Unchanged, 2)
	add("charts", "cluster", Unchanged, 5)
	add("template", "pve1", Changed, 44, "hosts/cluster", "charts/cluster")
	add("template", "pve2", Changed, 52, "hosts/cluster", "charts/cluster")
	before := "template/pve1"
	for i, name := range []string{"cp1", "cp2", "cp3"} {
		add("vm", name, Unchanged, 1.5, "template/pve1")
		add("first boot", name, Unchanged, 1, "vm/"+name)
		add("K3s", name, Changed, 24-float64(4*i), "first boot/"+name, before)
		before = "K3s/" + name
	}
	for i, name := range []string{"wk-gpu1", "wk-gpu2", "wk-gpu3", "wk-gpu4"} {
		add("GPUs", name, Unchanged, 0.4, "hosts/cluster")
		add("vm", name, Changed, 21+float64(3*i), "template/pve2", "GPUs/"+name)
		add("first boot", name, Changed, 18, "vm/"+name)
		if i == 2 {
			add("driver", name, Changed, 140, "first boot/"+name)
		} else {
			add("driver", name, Unchanged, 3, "first boot/"+name)
		}
		if i == 3 {
			add("K3s", name, Failed, 91, "driver/"+name, "K3s/cp1")
			r.Steps[len(r.Steps)-1].Error = "k3s-agent.service does not start\n  delete the old password"
			r.Steps = append(r.Steps, Step{Name: "allocatable/" + name, Lane: name, What: "allocatable", End: Skipped, Needs: []string{"K3s/" + name}})
			continue
		}
		add("K3s", name, Changed, 16, "driver/"+name, "K3s/cp1")
		add("allocatable", name, Changed, 22, "K3s/"+name)
	}
	add("chart", "cert-manager", Changed, 31, "K3s/cp3")
	add("chart", "nfs", Unchanged, 2, "K3s/cp3")
	add("storage", "nfs", Unchanged, 12, "chart/nfs")
	add("chart", "monitoring", Failed, 60, "chart/cert-manager", "storage/nfs")
	r.Steps = append(r.Steps, Step{Name: "chart/jupyterhub", Lane: "jupyterhub", What: "chart", End: Skipped, Needs: []string{"chart/monitoring"}})
	return r
}

// large is a healthy cluster of that many nodes, ten on a host, with eight GPUs each, after a
// run that made all of it.
func large(nodes int) *Page {
	p := &Page{
		Cluster: "campus", Command: "cluster:up", Version: "v0.9.0", Time: at(), Outcome: fmt.Sprintf("Done in 2 min 36 s: %d steps changed something.", 6*nodes),
		Facts: []Fact{{"Kubernetes", "v1.36.5+k3s1"}, {"API", "10.0.0.100"}}, Run: &Run{Started: at().Add(-156 * time.Second), Ended: at()},
	}
	pool := Pool{Name: "wk", Role: "agent", Ready: nodes, Nodes: nodes, Cores: "128", Memory: "1TiB", Model: fmt.Sprintf("%d × H100", 8*nodes), GPUs: 8 * nodes, Unit: "GPUs"}
	for i := range nodes {
		if i%10 == 0 {
			p.Hosts = append(p.Hosts, Host{Name: fmt.Sprintf("pve%d", i/10+1), State: Good, Words: "online", About: "1280 cores, 12TiB"})
		}
		name := fmt.Sprintf("wk-gpu%d", i+1)
		m := Machine{Name: name, State: Good, Words: "ready", Role: "agent", Address: fmt.Sprintf("10.0.1.%d", i+1), VMID: 200 + i, Version: "v1.36.5+k3s1", Age: "3h", Use: Use{Total: 8, Unit: "GPUs"}}
		for g := range 8 {
			m.GPUs = append(m.GPUs, GPU{Model: "H100 SXM5 80GB", Address: fmt.Sprintf("0000:%02x:00", 0x11+0x11*g)})
			r := Result{Node: name, Index: g, Model: "H100 SXM5 80GB", Memory: "80GiB", Driver: "580.95.05", UUID: fmt.Sprintf("GPU-%08d-%04d", i, g), Passed: true}
			for day := range 10 {
				r.Past = append(r.Past, PastResult{Time: at().AddDate(0, 0, day-10), Passed: true, Value: 2900 + float64((i+g+day)%7), Words: "2900 GB/s"})
			}
			r.Trends = []Trend{{Name: "memory bandwidth", Words: "2900 GB/s", Past: r.Past}, {Name: "matrix product", Words: "312 TFLOPS", Past: r.Past}}
			r.Checks = []Check{{Name: "compute", State: Good}, {Name: "pcie", State: Good}, {Name: "ecc", State: Good}, {Name: "clocks", State: Good}}
			p.Results = append(p.Results, r)
		}
		p.Results = append(p.Results, Result{Node: name, Index: Whole, Passed: true, Checks: []Check{{Name: "xid", State: Good}, {Name: "keep", State: Good}}})
		for h := range i % 4 {
			m.Use.Holders = append(m.Use.Holders, Holder{Name: fmt.Sprintf("student%d", (i*3+h)%60), Pod: fmt.Sprintf("jupyterhub/jupyter-student%d-%d", (i*3+h)%60, i), Count: 2, Since: at().Add(-time.Duration(i) * time.Hour)})
			m.Use.Used += 2
		}
		pool.Used += m.Use.Used
		host := &p.Hosts[len(p.Hosts)-1]
		host.Machines = append(host.Machines, m)
		start := p.Run.Started.Add(time.Duration(i%20) * 2 * time.Second)
		need := ""
		for k, what := range []string{"seed", "GPUs", "vm", "first boot", "driver", "K3s", "node", "allocatable"} {
			s := Step{Name: what + "/" + name, Lane: name, What: what, End: Changed, Started: start, Ended: start.Add(time.Duration(2+k*3+i%5) * time.Second)}
			if need != "" {
				s.Needs = []string{need}
			}
			start, need = s.Ended, s.Name
			p.Run.Steps = append(p.Run.Steps, s)
			p.Changes = append(p.Changes, Change{Where: name, What: what, Fields: []Field{{After: what + " as the file says"}}})
		}
	}
	p.Pools = []Pool{pool}
	return p
}
