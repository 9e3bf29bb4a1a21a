// The page's own words, in the reader's language.

const EN = {
  newChat: "New chat",
  settings: "Settings",
  greeting: "What shall we think about?",
  conversation: "Conversation",
  message: "Message",
  placeholder: "Write a message",
  send: "Send",
  stop: "Stop",
  hint: "Enter sends · Shift + Enter for a new line · Esc stops",
  close: "Close",
  system: "System prompt",
  sampling: "Sampling",
  samplingNote: "An empty field means the server's value, which it shows.",
  temperature: "Temperature",
  top_p: "Top p",
  top_k: "Top k",
  min_p: "Min p",
  max_tokens: "Longest answer, tokens",
  seed: "Seed",
  unlimited: "no limit",
  random: "random",
  key: "API key",
  keyNote: "Kept in this browser, sent to this server only.",
  keyAsked: "This server asks for an API key",
  useKey: "Use it",
  reset: "Back to the server's values",
  docs: "The server's API",
  copy: "Copy",
  copied: "Copied",
  again: "Answer again",
  you: "You",
  assistant: "Answer",
  thinking: "Thinking…",
  thoughts: "Thoughts",
  stopped: "Stopped",
  cutOff: "Cut off: the longest answer, or the end of the context, was reached",
  waiting: "Waiting for the first token",
  answering: "Answering",
  answered: "The answer is complete",
  retry: "Try again",
  connectionLost: "The connection ended before the answer did.",
  noServer: "The server cannot be reached.",
  context: (n) => `${n} tokens of context`,
  reading: (done, all) => `Reading the prompt: ${done} of ${all} tokens`,
  tokens: (n) => (n === "1" ? "1 token" : `${n} tokens`),
  speed: (n) => `${n} tokens/s`,
  cached: (n, all) => `${n} of ${all} prompt tokens cached`,
  promptTook: (n, ms) => `${n} tokens of the prompt were computed, in ${ms} ms`,
};

const ZH = {
  newChat: "新对话",
  settings: "设置",
  greeting: "今天想聊点什么？",
  conversation: "对话",
  message: "消息",
  placeholder: "写点什么",
  send: "发送",
  stop: "停止",
  hint: "Enter 发送 · Shift + Enter 换行 · Esc 停止",
  close: "关闭",
  system: "系统提示词",
  sampling: "采样",
  samplingNote: "留空则使用服务器的默认值（框内所示）。",
  temperature: "温度",
  top_p: "Top p",
  top_k: "Top k",
  min_p: "Min p",
  max_tokens: "回答最多 token 数",
  seed: "随机种子",
  unlimited: "不限",
  random: "随机",
  key: "API 密钥",
  keyNote: "只保存在本浏览器中，只发送给本服务器。",
  keyAsked: "此服务器需要 API 密钥",
  useKey: "使用",
  reset: "恢复服务器默认值",
  docs: "服务器 API 文档",
  copy: "复制",
  copied: "已复制",
  again: "重新回答",
  you: "你",
  assistant: "回答",
  thinking: "思考中…",
  thoughts: "思考过程",
  stopped: "已停止",
  cutOff: "回答被截断：达到最大长度或上下文末尾",
  waiting: "正在等待第一个 token",
  answering: "正在回答",
  answered: "回答完毕",
  retry: "重试",
  connectionLost: "回答尚未结束，连接已断开。",
  noServer: "无法连接服务器。",
  context: (n) => `上下文 ${n} 个 token`,
  reading: (done, all) => `正在读取提示：${done} / ${all} 个 token`,
  tokens: (n) => `${n} 个 token`,
  speed: (n) => `${n} token/秒`,
  cached: (n, all) => `提示 ${all} 个 token 中 ${n} 个来自缓存`,
  promptTook: (n, ms) => `计算了提示中的 ${n} 个 token，用时 ${ms} 毫秒`,
};

const isChinese = navigator.language.toLowerCase().startsWith("zh");
const numbers = new Intl.NumberFormat(navigator.language, { maximumFractionDigits: 1 });

export const words = isChinese ? ZH : EN;

export function count(n) {
  return numbers.format(n);
}

// Fills every element under root that has data-word (its text) or data-label (what it is called).
export function fillIn(root) {
  for (const element of root.querySelectorAll("[data-word]")) element.textContent = words[element.dataset.word];
  for (const element of root.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", words[element.dataset.label]);
    if (element.tagName === "BUTTON") element.title = words[element.dataset.label];
  }
  document.documentElement.lang = isChinese ? "zh-Hans" : "en";
}
