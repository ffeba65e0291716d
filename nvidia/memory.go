package nvidia

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

// memories are sizes of memory in GiB, by the model as NVIDIA's data sheets have it; of several
// sizes of one model the largest. Models whose name in the table has the size are not here.
var memories = map[string]int{
	"P40": 24, "H100 PCIe": 80, "H100 NVL": 94, "H200": 141, "H200 NVL": 141, "B200": 180,
	"RTX PRO 6000 Blackwell Workstation Edition": 96, "RTX PRO 6000 Blackwell Max-Q Workstation Edition": 96, "RTX PRO 6000 Blackwell Server Edition": 96,
	"T4": 16, "T4G": 16, "A10": 24, "A16": 16, "A30": 24, "A40": 48, "L4": 24, "L40": 48, "L40S": 48,
	"RTX A2000": 12, "RTX A4000": 16, "RTX A4500": 20, "RTX A5000": 24, "RTX A5500": 24, "RTX A6000": 48,
	"RTX 2000 Ada Generation": 16, "RTX 4000 Ada Generation": 20, "RTX 4500 Ada Generation": 24, "RTX 5000 Ada Generation": 32, "RTX 6000 Ada Generation": 48,
	"Quadro RTX 4000": 8, "Quadro RTX 5000": 16, "Quadro RTX 6000": 24, "TITAN V": 12, "TITAN RTX": 24,
	"GeForce RTX 2060": 12, "GeForce RTX 2070": 8, "GeForce RTX 2080": 8, "GeForce RTX 2080 Ti": 11,
	"GeForce RTX 3050": 8, "GeForce RTX 3060": 12, "GeForce RTX 3060 Ti": 8, "GeForce RTX 3070": 8, "GeForce RTX 3070 Ti": 8,
	"GeForce RTX 3080": 12, "GeForce RTX 3080 Ti": 12, "GeForce RTX 3090": 24, "GeForce RTX 3090 Ti": 24,
	"GeForce RTX 4060": 8, "GeForce RTX 4060 Ti": 16, "GeForce RTX 4070": 12, "GeForce RTX 4070 SUPER": 12, "GeForce RTX 4070 Ti": 12,
	"GeForce RTX 4070 Ti SUPER": 16, "GeForce RTX 4080": 16, "GeForce RTX 4080 SUPER": 16, "GeForce RTX 4090": 24,
	"GeForce RTX 5060": 8, "GeForce RTX 5060 Ti": 16, "GeForce RTX 5070": 12, "GeForce RTX 5070 Ti": 16, "GeForce RTX 5080": 16, "GeForce RTX 5090": 32,
}

var (
	gigabytes = regexp.MustCompile(`\b([0-9]{1,3}) ?GB\b`)
	inlineECC = regexp.MustCompile(`^(T4G?|A10|A16|A40|L4|L40S?)$`)
	variant   = regexp.MustCompile(` \(.*\)$| Lite Hash Rate$| Rev\. .*$`)
)

// Memory is how much memory a model has at most; 0 if it is not known here. The driver reports a
// little less.
func (g GPU) Memory() unit.Size {
	if m := gigabytes.FindStringSubmatch(g.Name); m != nil {
		n, _ := strconv.Atoi(m[1])
		return unit.Size(n) * unit.GiB
	}
	return unit.Size(memories[g.shortName()]) * unit.GiB
}

// reserved is what CUDA does not show of a card's memory: of an RTX 4090 with 24 GiB it shows 23.65, of an H100 79.2.
const reserved = 2 * unit.GiB / 5

// Usable is how much of [GPU.Memory] a program of CUDA can have, about; 0 if it is not known here.
// Data center cards with GDDR memory keep a sixteenth of it for error correction, which is on by default.
func (g GPU) Usable() unit.Size {
	m := g.Memory()
	if inlineECC.MatchString(g.shortName()) {
		m -= m / 16
	}
	return max(0, m-reserved)
}

// shortName is a card's name without NVIDIA's and its variant.
func (g GPU) shortName() string {
	return variant.ReplaceAllString(strings.TrimPrefix(strings.TrimPrefix(g.Name, "NVIDIA "), "Tesla "), "")
}
