// An extension of JupyterLab. It shows in the status bar what the notebook in front holds of the GPU, and shows each
// denial as a notification with its reason. JupyterLab loads it as a prebuilt extension (a container of webpack's module
// federation); it is written by hand, so nothing has to be built.
(function () {
  'use strict';
  const EVERY_MS = 2000;
  let shared;

  // Returns the module that JupyterLab itself uses, so that the tokens in the module are the same objects.
  async function module(name) {
    const versions = shared[name];
    if (!versions) throw new Error(`JupyterLab shares no ${name}`);
    return (await Object.values(versions)[0].get())();
  }

  const gib = (bytes) => (bytes / 2 ** 30).toFixed(1);

  function text(row) {
    const away = row.state === 'suspended' || row.state === 'resuming';
    return away ? `GPU ${row.state} (${gib(row.suspended_bytes)} GiB on the host)` : `GPU ${gib(row.used_bytes)} / ${gib(row.limit_bytes)} GiB`;
  }

  // Returns the rows of the kernel's own workload, or else those of the server's workload, which contains its kernels.
  function shown(rows, kernel) {
    const own = rows.filter((row) => row.kernel && row.kernel === kernel);
    return own.length ? own : rows.filter((row) => !row.kernel);
  }

  async function plugin() {
    const [{ IStatusBar }, { INotebookTracker }, { Widget }, { Dialog, Notification, showDialog }, { ServerConnection }, { URLExt }] = await Promise.all(
      ['@jupyterlab/statusbar', '@jupyterlab/notebook', '@lumino/widgets', '@jupyterlab/apputils', '@jupyterlab/services',
        '@jupyterlab/coreutils'].map(module));
    return {
      id: 'ration-jupyter:status',
      description: 'What a notebook holds of the GPU, its limit, and why memory was denied.',
      autoStart: true,
      requires: [IStatusBar],
      optional: [INotebookTracker],
      activate: (app, bar, notebooks) => {
        const item = new Widget();
        item.addClass('ration-status');
        Object.assign(item.node.style, { padding: '0 8px', display: 'flex', alignItems: 'center', height: '100%' });
        bar.registerStatusItem('ration-jupyter:status', { item, align: 'right', rank: 50, isActive: () => item.node.textContent !== '' });
        const settings = ServerConnection.makeSettings();
        const told = new Map();  // by workload and GPU: the number of denials that were shown
        let first = true;

        function explain(denial) {
          const body = new Widget();
          for (const line of [`${denial.text}.`, denial.not_because && `Not because ${denial.not_because}.`, denial.fix]) {
            if (!line) continue;
            const paragraph = document.createElement(line === denial.fix ? 'pre' : 'p');
            paragraph.textContent = line;
            paragraph.style.whiteSpace = 'pre-wrap';
            body.node.appendChild(paragraph);
          }
          body.addClass('ration-denial');
          showDialog({ title: 'GPU memory was denied', body, buttons: [Dialog.okButton()] });
        }

        function notify(row) {
          const key = `${row.workload}/${row.gpu}`;
          const fresh = row.denials > (told.get(key) ?? 0);
          told.set(key, row.denials);
          // Denials from before this page was opened are not shown.
          if (!fresh || first || !row.denial) return;
          // A notification shows 140 letters of the text; its button shows the whole text.
          Notification.error(`GPU: ${row.denial.text}`, {
            autoClose: false, actions: [{ label: 'What helps', displayType: 'accent', callback: (event) => { event.preventDefault(); explain(row.denial); } }],
          });
        }

        function draw(answer) {
          const kernel = notebooks?.currentWidget?.sessionContext?.session?.kernel?.id;
          const rows = shown(answer.workloads, kernel);
          item.node.textContent = rows.map(text).join('  ');
          item.node.title = answer.problem || rows.map((row) => `${row.workload}, GPU ${row.gpu}: ${row.denials} denied`).join('\n');
          bar.update?.();
          answer.workloads.forEach(notify);
          first = false;
        }

        async function look() {
          try {
            const answer = await ServerConnection.makeRequest(URLExt.join(settings.baseUrl, 'ration/status'), {}, settings);
            if (answer.ok) draw(await answer.json());
          } catch (error) {
            item.node.title = String(error);  // the server does not answer; the next look tries again
          }
          setTimeout(look, EVERY_MS);
        }
        app.restored.then(look);
      },
    };
  }

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB['ration-jupyter'] = {
    init: (scope) => { shared = scope; },
    get: async () => { const made = await plugin(); return () => ({ __esModule: true, default: made }); },
  };
})();
