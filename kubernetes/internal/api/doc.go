// Package api holds the Go code of the protobuf interfaces: quiverv1 is that of quiverd, agentv1 that between quiver-cni and
// quiver-agent. It is generated, and not kept in git.
package api

//go:generate go run ../../tools/protogen -out .. -module quiver/kubernetes/internal ../../../crates/api/proto=quiver/v1:api/quiverv1 ../../proto=quiver/agent/v1:api/agentv1
