package connectivity

import (
	"strconv"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// Where pods of the test answer, and where their Service does.
	podPort, servicePort = 8080, 80
	// What pods are told apart by.
	label = "quiver.io/connectivity-test"
	// Users of the images' programs are nobody in particular.
	nobody = 65534
)

// Names of pods: who asks, who is asked on the same node and on another one, and who lets only the client ask; and of the Service of the second
// and the third.
const (
	client, near, far, guarded, echo = "client", "near", "far", "guarded", "echo"
)

// podOf is one that answers, and from which others can be asked.
func podOf(name, node, image string, pull core.PullPolicy) *core.Pod {
	no, yes, user, grace := false, true, int64(nobody), int64(1)
	labels := map[string]string{label: name}
	if name == near || name == far {
		labels[label] = echo
	}
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels},
		Spec: core.PodSpec{
			NodeName: node, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &grace, RestartPolicy: core.RestartPolicyAlways,
			// The node is what is looked at, whatever it is kept free for.
			Tolerations:     []core.Toleration{{Operator: core.TolerationOpExists}},
			SecurityContext: &core.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault}},
			Containers: []core.Container{{
				Name: "probe", Image: image, ImagePullPolicy: pull, Command: []string{"quiver-agent", "probe", "serve", strconv.Itoa(podPort)},
				SecurityContext: &core.SecurityContext{
					AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}},
				},
			}},
		},
	}
}

// serviceOf is asked at addresses of both families, where the cluster has them, and at a port of each node.
func serviceOf() *core.Service {
	both := core.IPFamilyPolicyPreferDualStack
	port := func(name string, protocol core.Protocol) core.ServicePort {
		return core.ServicePort{Name: name, Protocol: protocol, Port: servicePort, TargetPort: intstr.FromInt32(podPort)}
	}
	return &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: echo},
		Spec: core.ServiceSpec{
			Type: core.ServiceTypeNodePort, Selector: map[string]string{label: echo}, IPFamilyPolicy: &both,
			Ports: []core.ServicePort{port("tcp", core.ProtocolTCP), port("udp", core.ProtocolUDP)},
		},
	}
}

// policyOf lets only the client ask the guarded pod.
func policyOf() *networking.NetworkPolicy {
	pods := func(name string) *meta.LabelSelector {
		return &meta.LabelSelector{MatchLabels: map[string]string{label: name}}
	}
	return &networking.NetworkPolicy{
		ObjectMeta: meta.ObjectMeta{Name: guarded},
		Spec: networking.NetworkPolicySpec{
			PodSelector: *pods(guarded), PolicyTypes: []networking.PolicyType{networking.PolicyTypeIngress},
			Ingress: []networking.NetworkPolicyIngressRule{{From: []networking.NetworkPolicyPeer{{PodSelector: pods(client)}}}},
		},
	}
}
