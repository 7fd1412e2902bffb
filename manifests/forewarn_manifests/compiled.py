"""The templates and shipped profiles, precompiled; written by forewarn_manifests.precompile, not by hand."""
# ruff: noqa
# fmt: off
# mypy: ignore-errors

from forewarn_manifests.runtime import TemplateRuntimeError, Undefined, environment, internalcode, missing

def job_head(context, missing=missing, environment=environment):
    resolve = context.resolve_or_missing
    undefined = environment.undefined
    concat = environment.concat
    cond_expr_undefined = Undefined
    if 0: yield None
    l_0_job = resolve('job')
    l_0_why = resolve('why')
    try:
        t_1 = environment.filters['tojson']
    except KeyError:
        @internalcode
        def t_1(*unused):
            raise TemplateRuntimeError("No filter named 'tojson' found.")
    pass
    yield 'metadata:\n'
    if environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'name'):
        pass
        yield '  name: '
        yield str(t_1(environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'name')))
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'name'))
        yield '\n'
    else:
        pass
        yield '  generateName: '
        yield str(t_1(environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'generate_name')))
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'generate_name'))
        yield '\n'
    yield '  labels:\n'
    for l_1_pair in environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'labels'):
        _loop_vars = {}
        pass
        yield '    '
        yield str(t_1(environment.getattr(l_1_pair, 'key')))
        yield ': '
        yield str(t_1(environment.getattr(l_1_pair, 'value')))
        yield str(environment.getattr(l_1_pair, 'why'))
        yield '\n'
    l_1_pair = missing
    if environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'annotations'):
        pass
        yield '  annotations:\n'
        for l_1_pair in environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'annotations'):
            _loop_vars = {}
            pass
            yield '    '
            yield str(t_1(environment.getattr(l_1_pair, 'key')))
            yield ': '
            yield str(t_1(environment.getattr(l_1_pair, 'value')))
            yield str(environment.getattr(l_1_pair, 'why'))
            yield '\n'
        l_1_pair = missing
    yield 'spec:\n'
    if environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'limit'):
        pass
        yield '  activeDeadlineSeconds: '
        yield str(t_1(environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'limit')))
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'timeout'))
        yield '\n'
    yield '  backoffLimit: '
    yield str(t_1(environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'backoff_limit')))
    yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'backoff_limit'))
    yield '\n'
    if environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'completions'):
        pass
        yield '  completionMode: Indexed\n  completions: '
        yield str(t_1(environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'completions')))
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'completions'))
        yield '\n  parallelism: '
        yield str(t_1(environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'parallelism')))
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'parallelism'))
        yield '\n'
    if environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'requeue'):
        pass
        yield '  podReplacementPolicy: Failed\n  podFailurePolicy:'
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'requeue'))
        yield '\n    rules:\n      - action: Ignore\n        onPodConditions:\n          - type: DisruptionTarget\n            status: "True"\n      - action: Ignore\n        onExitCodes:\n          operator: In\n          values: '
        yield str(t_1(environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'made_again')))
        yield '\n      - action: Count\n        onExitCodes:\n          operator: In\n          values: '
        yield str(t_1(environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'counted')))
        yield '\n      - action: FailJob\n        onExitCodes:\n          operator: NotIn\n          values: '
        yield str(t_1(environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'known_codes')))
        yield '\n'
    yield '  template:\n'


def pod_body(context, missing=missing, environment=environment):
    resolve = context.resolve_or_missing
    undefined = environment.undefined
    concat = environment.concat
    cond_expr_undefined = Undefined
    if 0: yield None
    l_0_pod = resolve('pod')
    l_0_why = resolve('why')
    try:
        t_1 = environment.filters['tojson']
    except KeyError:
        @internalcode
        def t_1(*unused):
            raise TemplateRuntimeError("No filter named 'tojson' found.")
    pass
    yield 'metadata:\n'
    if environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'name'):
        pass
        yield '  name: '
        yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'name')))
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'name'))
        yield '\n'
    elif environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'generate_name'):
        pass
        yield '  generateName: '
        yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'generate_name')))
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'generate_name'))
        yield '\n'
    yield '  labels:\n'
    for l_1_pair in environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'labels'):
        _loop_vars = {}
        pass
        yield '    '
        yield str(t_1(environment.getattr(l_1_pair, 'key')))
        yield ': '
        yield str(t_1(environment.getattr(l_1_pair, 'value')))
        yield str(environment.getattr(l_1_pair, 'why'))
        yield '\n'
    l_1_pair = missing
    if environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'annotations'):
        pass
        yield '  annotations:\n'
        for l_1_pair in environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'annotations'):
            _loop_vars = {}
            pass
            yield '    '
            yield str(t_1(environment.getattr(l_1_pair, 'key')))
            yield ': '
            yield str(t_1(environment.getattr(l_1_pair, 'value')))
            yield str(environment.getattr(l_1_pair, 'why'))
            yield '\n'
        l_1_pair = missing
    yield 'spec:\n  restartPolicy: Never\n  activeDeadlineSeconds: '
    yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'runtime')))
    yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'timeout'))
    yield '\n  terminationGracePeriodSeconds: '
    yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'grace')))
    yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'grace'))
    yield '\n'
    if environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'subdomain'):
        pass
        yield '  subdomain: '
        yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'subdomain')))
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'subdomain'))
        yield '\n'
    if environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'node_selector'):
        pass
        yield '  nodeSelector:\n'
        for l_1_pair in environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'node_selector'):
            _loop_vars = {}
            pass
            yield '    '
            yield str(t_1(environment.getattr(l_1_pair, 'key')))
            yield ': '
            yield str(t_1(environment.getattr(l_1_pair, 'value')))
            yield str(environment.getattr(l_1_pair, 'why'))
            yield '\n'
        l_1_pair = missing
    if environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'tolerations'):
        pass
        yield '  tolerations:'
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'tolerations'))
        yield '\n'
        for l_1_toleration in environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'tolerations'):
            _loop_vars = {}
            pass
            yield '    - '
            yield str(t_1(l_1_toleration))
            yield '\n'
        l_1_toleration = missing
    if environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'pull_secrets'):
        pass
        yield '  imagePullSecrets:'
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'pull_secrets'))
        yield '\n'
        for l_1_secret in environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'pull_secrets'):
            _loop_vars = {}
            pass
            yield '    - name: '
            yield str(t_1(l_1_secret))
            yield '\n'
        l_1_secret = missing
    if environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'security'):
        pass
        yield '  securityContext: '
        yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'security')))
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'security'))
        yield '\n'
    yield '  containers:\n    - name: session\n      image: '
    yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'image')))
    yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'image'))
    yield '\n      imagePullPolicy: '
    yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'pull_policy')))
    yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'pull_policy'))
    yield '\n'
    if environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'command'):
        pass
        yield '      command: '
        yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'command')))
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'entrypoint'))
        yield '\n'
    if environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'args'):
        pass
        yield '      args: '
        yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'args')))
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'command'))
        yield '\n'
    yield '      workingDir: '
    yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'home')))
    yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'home'))
    yield '\n'
    if environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'ports'):
        pass
        yield '      ports:\n'
        for l_1_port in environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'ports'):
            _loop_vars = {}
            pass
            yield '        - containerPort: '
            yield str(t_1(l_1_port))
            yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'port'))
            yield '\n'
        l_1_port = missing
    yield '      env:\n'
    for l_1_pair in environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'environment'):
        _loop_vars = {}
        pass
        yield '        - name: '
        yield str(t_1(environment.getattr(l_1_pair, 'key')))
        yield '\n          value: '
        yield str(t_1(environment.getattr(l_1_pair, 'value')))
        yield str(environment.getattr(l_1_pair, 'why'))
        yield '\n'
    l_1_pair = missing
    yield '      resources:\n        limits:\n          cpu: '
    yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'cpu_limit')))
    yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'cpus'))
    yield '\n          memory: '
    yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'memory_limit')))
    yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'memory'))
    yield '\n'
    if environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'gpus'):
        pass
        yield '          '
        yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'gpu_resource')))
        yield ': '
        yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'gpus')))
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'gpus'))
        yield '\n'
    yield '        requests:\n          cpu: '
    yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'cpu_request')))
    yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'half'))
    yield '\n          memory: '
    yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'memory_request')))
    yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'half'))
    yield '\n'
    if environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'gpus'):
        pass
        yield '          '
        yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'gpu_resource')))
        yield ': '
        yield str(t_1(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'gpus')))
        yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'gpus'))
        yield '\n'
    yield '      volumeMounts:\n'
    for l_1_mount in environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'mounts'):
        _loop_vars = {}
        pass
        yield '        - name: '
        yield str(t_1(environment.getattr(l_1_mount, 'name')))
        yield '\n          mountPath: '
        yield str(t_1(environment.getattr(l_1_mount, 'path')))
        yield str(environment.getattr(l_1_mount, 'why'))
        yield '\n'
        if environment.getattr(l_1_mount, 'sub_path'):
            pass
            yield '          subPath: '
            yield str(t_1(environment.getattr(l_1_mount, 'sub_path')))
            yield '\n'
        if environment.getattr(l_1_mount, 'read_only'):
            pass
            yield '          readOnly: true\n'
    l_1_mount = missing
    yield '  volumes:\n'
    for l_1_volume in environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'volumes'):
        _loop_vars = {}
        pass
        yield '    - name: '
        yield str(t_1(environment.getattr(l_1_volume, 'name')))
        yield '\n      '
        yield str(environment.getattr(l_1_volume, 'kind'))
        yield ': '
        yield str(t_1(environment.getattr(l_1_volume, 'source')))
        yield str(environment.getattr(l_1_volume, 'why'))
        yield '\n'
    l_1_volume = missing
    yield '    - name: '
    yield str(t_1(environment.getattr(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'podinfo'), 'name')))
    yield '\n      downwardAPI:'
    yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'podinfo'))
    yield '\n        items:\n'
    for l_1_item in environment.getattr(environment.getattr((undefined(name='pod') if l_0_pod is missing else l_0_pod), 'podinfo'), 'files'):
        _loop_vars = {}
        pass
        yield '          - path: '
        yield str(t_1(environment.getattr(l_1_item, 'path')))
        yield '\n            fieldRef:\n              fieldPath: '
        yield str(t_1(environment.getattr(l_1_item, 'field')))
        yield '\n'
    l_1_item = missing


def service(context, missing=missing, environment=environment):
    resolve = context.resolve_or_missing
    undefined = environment.undefined
    concat = environment.concat
    cond_expr_undefined = Undefined
    if 0: yield None
    l_0_job = resolve('job')
    l_0_why = resolve('why')
    try:
        t_1 = environment.filters['tojson']
    except KeyError:
        @internalcode
        def t_1(*unused):
            raise TemplateRuntimeError("No filter named 'tojson' found.")
    pass
    yield 'apiVersion: v1\nkind: Service\nmetadata:\n  name: '
    yield str(t_1(environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'name')))
    yield str(environment.getattr((undefined(name='why') if l_0_why is missing else l_0_why), 'subdomain'))
    yield '\n  labels:\n'
    for l_1_pair in environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'labels'):
        _loop_vars = {}
        pass
        yield '    '
        yield str(t_1(environment.getattr(l_1_pair, 'key')))
        yield ': '
        yield str(t_1(environment.getattr(l_1_pair, 'value')))
        yield str(environment.getattr(l_1_pair, 'why'))
        yield '\n'
    l_1_pair = missing
    yield 'spec:\n  clusterIP: None\n  publishNotReadyAddresses: true\n  selector:\n    batch.kubernetes.io/job-name: '
    yield str(t_1(environment.getattr((undefined(name='job') if l_0_job is missing else l_0_job), 'name')))
    yield '\n'


PROFILES = {'jupyter': {'summary': 'Jupyter alone, no shell',
             'extends': 'launch-scipy-ml',
             'defaults': {'shell': False, 'jupyter': True}},
 'launch-datascience': {'summary': 'Python and R for data science, with Jupyter',
                        'extends': 'launch',
                        'defaults': {'image': 'ghcr.io/ucsd-ets/datascience-notebook:stable', 'cpus': 2, 'memory': 8}},
 'launch-scipy-ml': {'summary': 'Python for machine learning, with Jupyter',
                     'extends': 'launch',
                     'defaults': {'image': 'ghcr.io/ucsd-ets/scipy-ml-notebook:stable', 'cpus': 2, 'memory': 8}},
 'launch': {'summary': 'a bare session',
            'defaults': {'image': 'ghcr.io/ucsd-ets/scipy-ml-notebook:stable',
                         'pullPolicy': 'IfNotPresent',
                         'cpus': 1,
                         'memory': 1,
                         'gpus': 0,
                         'timeout': 21600,
                         'grace': 600,
                         'shell': True,
                         'jupyter': True,
                         'sshd': False,
                         'proxy': True,
                         'port': 8888,
                         'backoffLimit': 6},
            'limits': {'cpus': 8, 'memory': 32, 'gpus': 1, 'timeout': 43200, 'completions': 64},
            'gpu': {'resource': 'nvidia.com/gpu',
                    'classes': ['extra-small', 'small', 'medium', 'large', 'extra-large'],
                    'strict': False,
                    'models': {'label': 'gpu-model', 'known': []}},
            'nodes': {'label': 'kubernetes.io/hostname', 'name': 'n{node}', 'digits': 2},
            'home': {'path': '/home/{user}', 'volume': {'emptyDir': {}}},
            'workspaces': {'path': '/home/{user}', 'volume': {'emptyDir': {}}},
            'condaCache': {'path': '/opt/conda-cache',
                           'volume': {'emptyDir': {}},
                           'environment': {'CONDA_PKGS_DIRS': '/opt/conda-cache'}},
            'environment': {'PYTHONUNBUFFERED': '1'},
            'commands': {'idle': ['/bin/sh', '-c', "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"],
                         'jupyter': ['start-notebook.py', '--ServerApp.ip=0.0.0.0', '--ServerApp.port={port}'],
                         'sshd': ['/usr/sbin/sshd', '-D', '-e', '-p', '2222']},
            'sshPort': 2222,
            'init': {'images': ['ghcr.io/ucsd-ets/*', 'quay.io/jupyter/*', 'jupyter/*']},
            'identity': 'image'},
 'ssh': {'summary': "sshd alone, for an editor's remote session",
         'extends': 'launch-scipy-ml',
         'defaults': {'shell': False, 'jupyter': False, 'sshd': True}}}
