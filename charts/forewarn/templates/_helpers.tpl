{{- /* Names: everything is called after the release. */ -}}
{{- define "forewarn.namespace" -}}{{ .Values.namespace | default .Release.Namespace }}{{- end }}
{{- define "forewarn.admission" -}}{{ .Release.Name }}-admission{{- end }}
{{- define "forewarn.mirror" -}}{{ .Release.Name }}-mirror{{- end }}
{{- define "forewarn.service" -}}{{ .Values.service | default (include "forewarn.admission" .) }}{{- end }}
{{- define "forewarn.registration" -}}{{ .Values.registration | default (include "forewarn.admission" .) }}{{- end }}
{{- define "forewarn.tlsSecret" -}}{{ .Values.tlsSecret | default (printf "%s-tls" (include "forewarn.admission" .)) }}{{- end }}
{{- define "forewarn.lease" -}}
{{ .Values.lease | default (printf "%s/%s" .Release.Namespace (include "forewarn.mirror" .)) }}
{{- end }}
{{- define "forewarn.prefix" -}}{{ .Values.annotationPrefix | trimSuffix "/" }}/{{- end }}
{{- define "forewarn.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}
{{- define "forewarn.tlsCert" -}}
{{ .Values.tlsCert | default (ternary "/etc/forewarn/tls/tls.crt" "" (not (empty .Values.certificate.existingSecret))) }}
{{- end }}
{{- define "forewarn.tlsKey" -}}
{{ .Values.tlsKey | default (ternary "/etc/forewarn/tls/tls.key" "" (not (empty .Values.certificate.existingSecret))) }}
{{- end }}

{{- /* Labels: forewarn.labels (dict "root" . "part" "mirror"); forewarn.match is the part that a selector may use. */ -}}
{{- define "forewarn.match" -}}
app.kubernetes.io/name: forewarn
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}
{{- define "forewarn.labels" -}}
{{ include "forewarn.match" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- /* The settings of each command as variables. A test compares them with the table in code. */ -}}
{{- define "forewarn.commonSettings" -}}
FOREWARN_ANNOTATION_PREFIX: {{ include "forewarn.prefix" . | quote }}
FOREWARN_POD_SELECTOR: {{ .Values.podSelector | quote }}
FOREWARN_LOG_FORMAT: {{ .Values.logFormat | quote }}
FOREWARN_HEALTH_PORT: {{ .Values.healthPort | quote }}
{{- end }}
{{- define "forewarn.admissionSettings" -}}
{{ include "forewarn.commonSettings" . }}
FOREWARN_WHOLE_MAP: {{ .Values.wholeMap | quote }}
FOREWARN_PORT: {{ .Values.port | quote }}
FOREWARN_HOST: {{ .Values.host | quote }}
FOREWARN_NAMESPACE: {{ include "forewarn.namespace" . | quote }}
FOREWARN_SERVICE: {{ include "forewarn.service" . | quote }}
FOREWARN_REGISTRATION: {{ include "forewarn.registration" . | quote }}
FOREWARN_TLS_SECRET: {{ include "forewarn.tlsSecret" . | quote }}
FOREWARN_TLS_CERT: {{ include "forewarn.tlsCert" . | quote }}
FOREWARN_TLS_KEY: {{ include "forewarn.tlsKey" . | quote }}
FOREWARN_DRAIN: {{ .Values.drain | quote }}
{{- end }}
{{- define "forewarn.mirrorSettings" -}}
{{ include "forewarn.commonSettings" . }}
FOREWARN_SESSIONS_LABEL: {{ .Values.sessionsLabel | quote }}
FOREWARN_STALE_AFTER: {{ .Values.staleAfter | quote }}
FOREWARN_EVENT_RATE: {{ .Values.eventRate | quote }}
FOREWARN_RESTATE_EVERY: {{ .Values.restateEvery | quote }}
FOREWARN_LEASE: {{ include "forewarn.lease" . | quote }}
{{- end }}

{{- /* What both pods have in common: forewarn.pod (dict "root" . "part" "mirror" "settings" <yaml> "grace" 30). */ -}}
{{- define "forewarn.podMetadata" -}}
labels:
  {{- include "forewarn.labels" . | nindent 2 }}
annotations:
  {{- if .root.Values.metrics.annotations }}
  prometheus.io/scrape: "true"
  prometheus.io/port: {{ .root.Values.healthPort | quote }}
  prometheus.io/path: /metrics
  {{- end }}
  {{- with (get .root.Values .part).podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- define "forewarn.podCommon" -}}
serviceAccountName: {{ .root.Release.Name }}-{{ .part }}
terminationGracePeriodSeconds: {{ .grace }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
# The replicas stand on different nodes where there are any.
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "forewarn.match" . | nindent 6 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}
{{- define "forewarn.containerCommon" -}}
image: {{ include "forewarn.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
env:
{{- range $name, $value := .settings | fromYaml }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
livenessProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
# A start may have to wait for a busy node; after it the liveness probe takes over.
startupProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 1
  failureThreshold: 60
resources:
  {{- toYaml (get .root.Values .part).resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}
