// Package plugin is what quiver-cni does: it asks the node's quiver-agent, and words the answer as CNI wants it.
package plugin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
)

// Config is the network configuration.
type Config struct {
	types.PluginConf
	// AgentSocket is where quiver-agent listens.
	AgentSocket string `json:"agentSocket"`
	// StateDirectory is that of quiver-agent.
	StateDirectory string `json:"stateDirectory"`
	// TimeoutSeconds an operation may take.
	TimeoutSeconds int `json:"timeoutSeconds"`
	// RuntimeConfig holds what the runtime gives along for capabilities.
	RuntimeConfig struct {
		Annotations  map[string]string `json:"io.kubernetes.cri.pod-annotations"`
		PortMappings []portMapping     `json:"portMappings"`
	} `json:"runtimeConfig"`
}

// portMapping is one of the capability "portMappings", as CNI's conventions say.
type portMapping struct {
	HostPort      uint32 `json:"hostPort"`
	ContainerPort uint32 `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP"`
}

// hostPorts are those that were asked for: a port of the host that is 0 means none.
func (c *Config) hostPorts() (ports []*agentv1.HostPort) {
	for _, mapping := range c.RuntimeConfig.PortMappings {
		if mapping.HostPort != 0 {
			ports = append(ports, &agentv1.HostPort{
				Protocol: cmp.Or(strings.ToLower(mapping.Protocol), "tcp"), Port: mapping.HostPort, PodPort: mapping.ContainerPort, Address: mapping.HostIP,
			})
		}
	}
	return ports
}

// The arguments by which Kubernetes runtimes tell the pod.
type podArgs struct {
	types.CommonArgs
	K8S_POD_NAMESPACE types.UnmarshallableString //nolint:revive // the names are those of the arguments
	K8S_POD_NAME      types.UnmarshallableString
	K8S_POD_UID       types.UnmarshallableString
}

func readConfig(text []byte) (*Config, error) {
	config := &Config{AgentSocket: "/run/quiver/agent.sock", StateDirectory: "/var/lib/quiver/pods", TimeoutSeconds: 30}
	if err := json.Unmarshal(text, config); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, fmt.Sprintf("network configuration: %v", err), "correct the file in /etc/cni/net.d")
	}
	if config.TimeoutSeconds < 1 {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("network %s: timeoutSeconds = %d", config.Name, config.TimeoutSeconds), "give at least 1")
	}
	return config, nil
}

func (c *Config) timeout() time.Duration { return time.Duration(c.TimeoutSeconds) * time.Second }

func readArgs(text string) (*podArgs, error) {
	args := &podArgs{}
	// Whoever calls may have arguments for others, too.
	args.IgnoreUnknown = true
	if err := types.LoadArgs(text, args); err != nil {
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("CNI_ARGS: %v", err), "write KEY=VALUE;KEY=VALUE")
	}
	return args, nil
}

func attachmentOf(args *skel.CmdArgs) *agentv1.Attachment {
	return &agentv1.Attachment{ContainerId: args.ContainerID, Interface: args.IfName}
}
