// Package facts is for tests: it compares their knowledge of other programs with the full
// sources.
//
// This knowledge is a small file in the test's testdata: keys, types and limits, without
// descriptions. The test always uses that file. If the variable HOMELAB_FACTS names a folder
// with the full sources, the file is generated from them again and must be equal; -update
// writes it. The folder holds
//
//	charts/NAME/values.yaml, values.schema.json, questions.yaml   as the charts have them
//	crds/GROUP_PLURAL.yaml                                        definitions of kinds that charts bring
//	schemas/cloud-init-VERSION-schema-KIND.json                   cloud-init's own
//	values/kube-vip/daemonset.yaml, rbac.yaml                     as kube-vip generates them
//	pve9-api.json                                                 Proxmox VE's dump of its API
//	nvidia-gpus.json                                              NVIDIA's lists of GPUs, joined
//
// Whole charts are too large for that. Tests that render them get a folder from [Charts].
package facts
